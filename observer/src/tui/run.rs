//! The loop: batches, keys, signals and the drawing ticker, one at a time.

use std::io;
use std::sync::OnceLock;
use std::time::Duration;

use crossterm::event::{
    Event as Input, EventStream, KeyEventKind, MouseButton, MouseEvent, MouseEventKind,
};
use futures::{FutureExt as _, StreamExt as _};
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::keys::Key;
use super::look::Look;
use super::recorder::{Notice, Recorder};
use super::state::{Effect, Mouse, Paused, Shows, ViewState};
use super::terminal::{self, Screen};
use super::{draw, view};
use crate::event::{Event, FlowId};
use crate::model::Model;
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

/// Shows `source` until the user quits, a signal comes, or it ends. Gives the model back. Without a `recorder` nothing can be
/// recorded here.
pub async fn run(
    source: &mut impl Source,
    options: &Options,
    mut recorder: Option<&mut dyn Recorder>,
) -> Result<Model, TuiError> {
    let name = view::header::source_name(source.info().origin);
    let mut model = Model::default();
    let mut state = options.view.clone();
    state.wall = super::Wall {
        offset_ns: source.info().wall_offset_ns,
        zone: jiff::tz::TimeZone::system(),
    };
    // Before the terminal is taken: a signal must find its way.
    let mut signals = ends()?;
    let mut continued = signal(SignalKind::from_raw(rustix::process::Signal::CONT.as_raw()))?;
    let wall_offset_ns = source.info().wall_offset_ns;
    let mut look = Look::default();
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
                    let now = react(event, &mut state, &mut screen)?;
                    if now == Reaction::Pause {
                        look.toggle(&model);
                    }
                    if now == Reaction::Record {
                        record(&mut recorder, &model, &mut state);
                    }
                    reaction = reaction.max(now);
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
                state.own_cpu = own.told(&model).or(state.own_cpu);
                dirty
            }
            batch = source.next() => match batch? {
                Some(batch) => {
                    take(&batch, &mut model, &mut recorder);
                    dirty = true;
                    false
                }
                None => break,
            },
        };
        if now {
            let focus = state.focus();
            model.focus(&focus);
            (options.focus)(&focus);
            if let Some(recorder) = &recorder {
                state.recording = recorder.told(model.now());
            }
            let shown = look.at(&model);
            state.paused = look.is_frozen().then(|| Paused {
                at: shown.now(),
                clock: wall_offset_ns.and_then(|offset| clock(shown.now(), offset)),
                ago: model.now().since(shown.now()),
            });
            screen.terminal.draw(|frame| {
                state.prepare(shown, &*options.shows, frame.area());
                draw(shown, &state, name, frame);
            })?;
            dirty = false;
        }
    }
    Ok(model)
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

/// Begins a recording, or ends it. Where nothing is recorded that is said, until the next time.
fn record(recorder: &mut Option<&mut dyn Recorder>, model: &Model, state: &mut ViewState) {
    if let Some(recorder) = recorder {
        recorder.toggle(model, state.flows.filter.as_ref());
        return;
    }
    let said = state.recording.notice.take().is_some();
    state.recording.notice = (!said).then(|| Notice {
        text: "this is recorded already: copy the file to keep it".to_owned(),
        alarm: false,
    });
}

/// Folds what came.
fn take(batch: &[Event], model: &mut Model, recorder: &mut Option<&mut dyn Recorder>) {
    for event in batch {
        model.apply(event);
        if let Some(recorder) = recorder {
            recorder.take(model, event);
        }
    }
    // The screen has no page for them yet; they are not to pile up.
    drop(model.take_derived());
}

/// What an input asks of the loop, the weightiest last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Reaction {
    Nothing,
    Draw,
    Pause,
    Record,
    Quit,
}

fn react(read: &Input, state: &mut ViewState, screen: &mut Screen) -> io::Result<Reaction> {
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
        Some(Effect::Pause) => return Ok(Reaction::Pause),
        Some(Effect::Record) => return Ok(Reaction::Record),
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
