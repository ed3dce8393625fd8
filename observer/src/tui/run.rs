//! The loop: batches, keys, signals and the drawing ticker, one at a time.

use std::io;
use std::sync::OnceLock;
use std::time::Duration;

use crossterm::event::{
    Event as Input, EventStream, KeyEventKind, MouseButton, MouseEvent, MouseEventKind,
};
use futures::{FutureExt as _, StreamExt as _};
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::feed::{Fed, Feed, Timeline, Wanted};
use super::keys::Key;
use super::look::Look;
use super::recorder::{Recorder, Told};
use super::state::{Effect, Mouse, Paused, Shows, ViewState};
use super::terminal::{self, Screen};
use super::transport::Command;
use super::{draw, view};
use crate::event::FlowId;
use crate::filter::Filter;
use crate::model::{Flow, Fold, Model};
use crate::source::{Source, SourceError};
use crate::units::Mono;

/// Own CPU time is read this often: of less its share says little.
const OWN_EVERY: Duration = Duration::from_secs(1);

/// A frame waits for no more inputs than these: a held key moves on the screen too.
const INPUTS_PER_FRAME: usize = 32;

/// Why the screen ended other than by the user.
#[derive(Debug, thiserror::Error)]
pub enum TuiError {
    #[error("the terminal cannot be used: {0}")]
    Terminal(#[from] io::Error),
    #[error(transparent)]
    Source(#[from] SourceError),
    /// What is shown cannot be read any more; told so that a person knows what to do next.
    #[error("{0}")]
    Feed(String),
}

/// Takes in which flows are looked at.
pub type Focus = dyn Fn(&[FlowId]);

/// How the screen is to be.
#[expect(missing_debug_implementations, reason = "holds a closure")]
pub struct Options {
    /// What one begins with.
    pub view: ViewState,
    /// It is drawn no more often than this, but at once after a key.
    pub refresh: Duration,
    /// Which flows are asked for.
    pub shows: Box<Shows>,
    /// Told which flows are looked at, whenever that may have changed.
    pub focus: Box<Focus>,
}

/// Shows `source` until the user quits, a signal comes, or it ends. Folds into `fold` and gives its model back. Without a
/// `recorder` nothing can be recorded here.
pub async fn run(
    source: &mut impl Source,
    fold: Fold,
    options: &Options,
    recorder: Option<&mut dyn Recorder>,
) -> Result<Model, TuiError> {
    let live = Live {
        source,
        fold,
        look: Look::default(),
        recorder,
    };
    show(live, options).await
}

/// A source whose last minutes are kept.
struct Live<'a, 'r, S> {
    source: &'a mut S,
    fold: Fold,
    look: Look,
    recorder: Option<&'a mut (dyn Recorder + 'r)>,
}

impl<S: Source> Feed for Live<'_, '_, S> {
    fn source(&self) -> String {
        view::header::source_name(self.source.info().origin).to_owned()
    }

    fn wall_offset_ns(&self) -> Option<i64> {
        self.source.info().wall_offset_ns
    }

    async fn next(&mut self) -> Result<Fed, TuiError> {
        let Some(batch) = self.source.next().await? else {
            return Ok(Fed::End);
        };
        for event in &batch {
            self.fold.apply(event);
            if let Some(recorder) = &mut self.recorder {
                recorder.take(self.fold.model(), event);
            }
        }
        // The journal has what they tell; they are not to pile up.
        drop(self.fold.model_mut().take_derived());
        self.look.keep(self.fold.model_mut());
        Ok(Fed::More)
    }

    fn focus(&mut self, flows: &[FlowId]) {
        self.fold.model_mut().focus(flows);
        self.look.focus(self.fold.model(), flows);
    }

    fn shown(&self) -> &Model {
        self.look.at(self.fold.model())
    }

    fn act(&mut self, command: Command, wanted: &Wanted<'_>) -> Result<Option<String>, TuiError> {
        Ok(self.look.act(command, self.fold.model(), wanted))
    }

    fn timeline(&mut self) -> Timeline {
        self.look.timeline(self.fold.model())
    }

    fn record(&mut self, typed: Option<&Filter>) -> Option<String> {
        let Some(recorder) = &mut self.recorder else {
            return Some("nothing can be recorded here".to_owned());
        };
        recorder.toggle(self.fold.model(), typed);
        None
    }

    fn recording(&self) -> Told {
        let recorder = self.recorder.as_ref();
        recorder.map_or_else(Told::default, |recorder| {
            recorder.told(self.fold.model().now())
        })
    }

    fn into_model(self) -> Model {
        self.fold.into_model()
    }
}

/// Shows `feed` until the user quits, a signal comes, or it ends. Gives the newest model back.
pub async fn show<F: Feed>(mut feed: F, options: &Options) -> Result<Model, TuiError> {
    let mut state = options.view.clone();
    state.wall = super::Wall {
        offset_ns: feed.wall_offset_ns(),
        zone: jiff::tz::TimeZone::system(),
    };
    // Before the terminal is taken: a signal must find its way.
    let mut signals = ends()?;
    let mut continued = signal(SignalKind::from_raw(rustix::process::Signal::CONT.as_raw()))?;
    let mut screen = Screen::take(state.clicks.taken)?;
    let mut input = EventStream::new();
    let mut ticker = tokio::time::interval(options.refresh);
    ticker.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut own = OwnCpu::default();
    let mut dirty = true;
    loop {
        let [interrupt, terminate, hangup, quit] = &mut signals;
        let now = tokio::select! {
            biased;
            _ = interrupt.recv() => break,
            _ = terminate.recv() => break,
            _ = hangup.recv() => break,
            _ = quit.recv() => break,
            // Whoever stopped us: a shell had the terminal since.
            _ = continued.recv() => {
                screen.resume()?;
                true
            }
            read = input.next() => {
                let (mut read, mut reaction) = (read, Reaction::Nothing);
                // What was typed meanwhile is taken in before one frame is drawn for all of it.
                for _ in 0..INPUTS_PER_FRAME {
                    // An error, or none: the terminal is gone.
                    let Some(Ok(event)) = &read else {
                        reaction = Reaction::Quit;
                        break;
                    };
                    reaction = reaction.max(react(event, &mut state, &mut screen, &mut feed, options)?);
                    if reaction == Reaction::Quit {
                        break;
                    }
                    match input.next().now_or_never() {
                        Some(next) => read = next,
                        None => break,
                    }
                }
                if reaction == Reaction::Quit {
                    break;
                }
                reaction != Reaction::Nothing
            }
            _ = ticker.tick() => {
                if terminal::is_gone() {
                    break;
                }
                state.own_cpu = own.told(feed.shown()).or(state.own_cpu);
                dirty
            }
            fed = feed.next() => match fed? {
                Fed::More => {
                    dirty = true;
                    false
                }
                Fed::Now => true,
                Fed::End => break,
            },
        };
        if now {
            frame(&mut feed, &mut state, &mut screen, options)?;
            dirty = false;
        }
    }
    Ok(feed.into_model())
}

/// Draws what there is to see now.
fn frame<F: Feed>(
    feed: &mut F,
    state: &mut ViewState,
    screen: &mut Screen,
    options: &Options,
) -> io::Result<()> {
    let focus = state.focus();
    feed.focus(&focus);
    (options.focus)(&focus);
    state.recording = feed.recording();
    let timeline = feed.timeline();
    let name = feed.source();
    let shown = feed.shown();
    let wall_offset_ns = state.wall.offset_ns;
    let paused = !timeline.is_file() && timeline.is_still();
    state.paused = paused.then(|| Paused {
        at: timeline.at,
        clock: wall_offset_ns.and_then(|offset| clock(timeline.at, offset)),
        ago: timeline.now.since(timeline.at),
    });
    state.timeline = Some(timeline);
    screen.terminal.draw(|frame| {
        state.prepare(shown, &*options.shows, frame.area());
        draw(shown, state, &name, frame);
    })?;
    Ok(())
}

/// The signals that end it.
fn ends() -> io::Result<[Signal; 4]> {
    Ok([
        signal(SignalKind::interrupt())?,
        signal(SignalKind::terminate())?,
        signal(SignalKind::hangup())?,
        signal(SignalKind::quit())?,
    ])
}

/// `21:03:07` by the wall's clock here.
fn clock(at: Mono, wall_offset_ns: i64) -> Option<String> {
    let wall = i128::from(at.0) + i128::from(wall_offset_ns);
    let wall = jiff::Timestamp::from_nanosecond(wall).ok()?;
    let here = wall.to_zoned(jiff::tz::TimeZone::system());
    Some(here.strftime("%H:%M:%S").to_string())
}

/// What an input asks of the loop, the weightiest last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Reaction {
    Nothing,
    Draw,
    Quit,
}

fn react<F: Feed>(
    read: &Input,
    state: &mut ViewState,
    screen: &mut Screen,
    feed: &mut F,
    options: &Options,
) -> Result<Reaction, TuiError> {
    let key = match read {
        Input::Key(key) if key.kind != KeyEventKind::Release => Key::of(*key),
        Input::Resize(..) => return Ok(Reaction::Draw),
        Input::Paste(text) => {
            state.paste(text);
            return Ok(Reaction::Draw);
        }
        Input::Mouse(event) => {
            let Some(mouse) = mouse(*event) else {
                return Ok(Reaction::Nothing);
            };
            state.mouse(mouse, since_start());
            return Ok(Reaction::Draw);
        }
        _ => return Ok(Reaction::Nothing),
    };
    let Some(effect) = state.key(key) else {
        return Ok(Reaction::Nothing);
    };
    match effect {
        Some(Effect::Quit) => return Ok(Reaction::Quit),
        Some(Effect::Redraw) => screen.redraw()?,
        Some(Effect::Suspend) => screen.suspend()?,
        Some(Effect::Record) => state.notice = feed.record(state.flows.filter.as_ref()),
        Some(Effect::Time(command)) => {
            let wanted = |model: &Model, id: FlowId, flow: Option<&Flow>| {
                state.wants(model, &*options.shows, id, flow)
            };
            state.notice = feed.act(command, &wanted)?;
        }
        Some(Effect::Mouse(taken)) => screen.mouse(taken)?,
        None => {}
    }
    Ok(Reaction::Draw)
}

/// What we have a use for.
fn mouse(event: MouseEvent) -> Option<Mouse> {
    match event.kind {
        MouseEventKind::Down(MouseButton::Left) => Some(Mouse::Click {
            x: event.column,
            y: event.row,
        }),
        MouseEventKind::ScrollUp => Some(Mouse::WheelUp),
        MouseEventKind::ScrollDown => Some(Mouse::WheelDown),
        _ => None,
    }
}

/// A clock for what a hand does.
#[expect(
    clippy::disallowed_methods,
    reason = "double clicks are of the hand, not of the events"
)]
fn since_start() -> Duration {
    static START: OnceLock<tokio::time::Instant> = OnceLock::new();
    START.get_or_init(tokio::time::Instant::now).elapsed()
}

/// This process's CPU time between two looks, share of all cores; `None` until there is something to tell.
#[derive(Debug, Default)]
struct OwnCpu {
    last: Option<(Duration, tokio::time::Instant)>,
}

impl OwnCpu {
    /// By the source, the programs' part with it, where it knows; else as measured here.
    fn told(&mut self, model: &Model) -> Option<f64> {
        let told = model.counters().and_then(|counters| counters.cost);
        let own = self.share();
        told.map(|cost| cost.share()).or(own)
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "own cost is of this machine, not of the events"
    )]
    fn share(&mut self) -> Option<f64> {
        let now = tokio::time::Instant::now();
        if self
            .last
            .is_some_and(|(_, then)| now.duration_since(then) < OWN_EVERY)
        {
            return None;
        }
        let usage = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
        let used = Duration::try_from(usage).ok()?;
        let (before, then) = self.last.replace((used, now))?;
        let wall = now.duration_since(then).as_secs_f64();
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        (wall > 0.0).then(|| used.saturating_sub(before).as_secs_f64() / wall / cores as f64)
    }
}
