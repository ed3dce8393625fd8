//! The theme: a style for each role, and the characters charts are drawn with. Views name roles, never colours.

use ratatui::style::{Color, Modifier, Style};

use crate::event::Phase;

/// Themes by the names of the config file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ThemeName {
    /// The terminal's own palette.
    #[default]
    Terminal,
    Dark,
    Light,
    HighContrast,
    /// No colour: bold, underlined and reversed remain.
    None,
}

impl ThemeName {
    pub const ALL: [Self; 5] = [
        Self::Terminal,
        Self::Dark,
        Self::Light,
        Self::HighContrast,
        Self::None,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Terminal => "terminal",
            Self::Dark => "dark",
            Self::Light => "light",
            Self::HighContrast => "high-contrast",
            Self::None => "none",
        }
    }
}

/// What charts are drawn with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Marker {
    /// Two by four dots a character; some fonts lack them.
    #[default]
    Braille,
    Block,
    Ascii,
}

impl Marker {
    pub const ALL: [Self; 3] = [Self::Braille, Self::Block, Self::Ascii];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Braille => "braille",
            Self::Block => "block",
            Self::Ascii => "ascii",
        }
    }
}

/// A style for each role. Meaning is never in colour alone: words and marks say it too.
#[derive(Clone, Debug, PartialEq)]
pub struct Theme {
    /// What a reader must not miss.
    pub alarm: Style,
    /// What deserves a look.
    pub warn: Style,
    /// What is well.
    pub good: Style,
    /// What stands back.
    pub quiet: Style,
    /// Headings of columns, titles of panels.
    pub heading: Style,
    /// The heading that is sorted by.
    pub sorted: Style,
    /// The line the selection is on.
    pub selected: Style,
    /// Text that was searched for.
    pub found: Style,
    /// Totals of a group.
    pub group: Style,
    /// A key's name in the footer.
    pub key: Style,
    /// Axes, grid and frames.
    pub axis: Style,
    /// A chart's cursor.
    pub cursor: Style,
    /// Lines of a chart, in the order of its legend.
    pub series: [Style; 6],
    startup: Style,
    drain: Style,
    probe_bw: Style,
    probe_rtt: Style,
    pub marker: Marker,
}

/// What themes differ in.
struct Palette {
    alarm: Color,
    warn: Color,
    good: Color,
    /// `None`: dimmed.
    quiet: Option<Color>,
    heading: Color,
    series: [Color; 6],
}

impl Default for Theme {
    fn default() -> Self {
        Self::new(ThemeName::Terminal, Marker::default())
    }
}

impl Theme {
    pub fn new(name: ThemeName, marker: Marker) -> Self {
        let theme = match name {
            ThemeName::None => Self::plain(),
            ThemeName::Terminal => Self::of(&TERMINAL),
            ThemeName::Dark => Self::of(&DARK),
            ThemeName::Light => Self::of(&LIGHT),
            ThemeName::HighContrast => Self::of(&HIGH_CONTRAST),
        };
        Self { marker, ..theme }
    }

    /// Bold, underlined and reversed; no colour.
    fn plain() -> Self {
        let bold = Style::new().add_modifier(Modifier::BOLD);
        let reversed = Style::new().add_modifier(Modifier::REVERSED);
        let underlined = Style::new().add_modifier(Modifier::UNDERLINED);
        Self {
            alarm: bold.add_modifier(Modifier::REVERSED),
            warn: bold,
            good: Style::new(),
            quiet: Style::new(),
            heading: bold,
            sorted: bold.add_modifier(Modifier::UNDERLINED),
            selected: reversed,
            found: underlined,
            group: bold,
            key: bold,
            axis: Style::new(),
            cursor: reversed,
            series: [Style::new(); 6],
            startup: bold,
            drain: underlined,
            probe_bw: Style::new(),
            probe_rtt: reversed,
            marker: Marker::default(),
        }
    }

    fn of(palette: &Palette) -> Self {
        let plain = Self::plain();
        let fg = |color| Style::new().fg(color);
        Self {
            alarm: plain.alarm.fg(palette.alarm),
            warn: plain.warn.fg(palette.warn),
            good: fg(palette.good),
            quiet: palette
                .quiet
                .map_or(Style::new().add_modifier(Modifier::DIM), fg),
            heading: plain.heading.fg(palette.heading),
            sorted: plain.sorted.fg(palette.heading),
            found: plain.found.fg(palette.warn),
            axis: palette
                .quiet
                .map_or(Style::new().add_modifier(Modifier::DIM), fg),
            series: palette.series.map(fg),
            startup: fg(palette.series[2]),
            drain: fg(palette.series[3]),
            probe_bw: fg(palette.series[0]),
            probe_rtt: fg(palette.alarm),
            ..plain
        }
    }

    /// The band under a chart.
    pub fn phase(&self, phase: Phase) -> Style {
        match phase {
            Phase::Startup => self.startup,
            Phase::Drain => self.drain,
            Phase::ProbeBw => self.probe_bw,
            Phase::ProbeRtt => self.probe_rtt,
        }
    }
}

const TERMINAL: Palette = Palette {
    alarm: Color::Red,
    warn: Color::Yellow,
    good: Color::Green,
    quiet: None,
    heading: Color::Reset,
    series: [
        Color::Cyan,
        Color::Green,
        Color::Magenta,
        Color::Yellow,
        Color::Blue,
        Color::Red,
    ],
};

const DARK: Palette = Palette {
    alarm: Color::Rgb(255, 107, 107),
    warn: Color::Rgb(255, 203, 107),
    good: Color::Rgb(143, 214, 148),
    quiet: Some(Color::Rgb(138, 143, 152)),
    heading: Color::Rgb(171, 205, 239),
    // Okabe and Ito's colours, lightened: told apart also by the colour-blind.
    series: [
        Color::Rgb(86, 180, 233),
        Color::Rgb(230, 159, 0),
        Color::Rgb(0, 190, 140),
        Color::Rgb(240, 228, 66),
        Color::Rgb(204, 121, 167),
        Color::Rgb(213, 94, 0),
    ],
};

const LIGHT: Palette = Palette {
    alarm: Color::Rgb(176, 0, 32),
    warn: Color::Rgb(138, 82, 0),
    good: Color::Rgb(22, 102, 52),
    quiet: Some(Color::Rgb(96, 100, 108)),
    heading: Color::Rgb(20, 60, 120),
    // The same, darkened until they read on white.
    series: [
        Color::Rgb(0, 95, 150),
        Color::Rgb(160, 95, 0),
        Color::Rgb(0, 110, 80),
        Color::Rgb(110, 100, 0),
        Color::Rgb(150, 60, 110),
        Color::Rgb(170, 65, 0),
    ],
};

const HIGH_CONTRAST: Palette = Palette {
    alarm: Color::LightRed,
    warn: Color::LightYellow,
    good: Color::LightGreen,
    // Nothing stands back.
    quiet: Some(Color::Reset),
    heading: Color::Reset,
    series: [
        Color::LightCyan,
        Color::LightYellow,
        Color::LightGreen,
        Color::LightMagenta,
        Color::LightBlue,
        Color::LightRed,
    ],
};

#[cfg(test)]
mod tests {
    use super::*;

    fn all(theme: &Theme) -> Vec<Style> {
        let mut styles = vec![
            theme.alarm,
            theme.warn,
            theme.good,
            theme.quiet,
            theme.heading,
            theme.sorted,
            theme.selected,
            theme.found,
            theme.group,
            theme.key,
            theme.axis,
            theme.cursor,
            theme.startup,
            theme.drain,
            theme.probe_bw,
            theme.probe_rtt,
        ];
        styles.extend(theme.series);
        styles
    }

    #[test]
    fn without_colour_there_is_none() {
        let theme = Theme::new(ThemeName::None, Marker::Ascii);
        assert_eq!(theme.marker, Marker::Ascii);
        for style in all(&theme) {
            assert_eq!((style.fg, style.bg), (None, None));
        }
    }

    #[test]
    fn what_must_be_seen_is_seen_without_colour_too() {
        let plain = Theme::new(ThemeName::None, Marker::Braille);
        for name in ThemeName::ALL {
            let theme = Theme::new(name, Marker::Braille);
            for (role, without) in [
                (theme.alarm, plain.alarm),
                (theme.selected, plain.selected),
                (theme.found, plain.found),
                (theme.sorted, plain.sorted),
            ] {
                assert_eq!(role.add_modifier, without.add_modifier, "{name:?}");
                assert!(!role.add_modifier.is_empty());
            }
        }
    }

    #[test]
    fn the_terminals_palette_is_the_terminals() {
        for style in all(&Theme::new(ThemeName::Terminal, Marker::Braille)) {
            assert!(!matches!(
                style.fg,
                Some(Color::Rgb(..) | Color::Indexed(_))
            ));
            assert_eq!(style.bg, None);
        }
    }
}
