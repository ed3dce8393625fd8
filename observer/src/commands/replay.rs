//! `observer replay`: the dashboard over a recording.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::{Failure, choose, live};
use crate::cli::{Common, ReplayArgs};
use crate::event::FlowId;
use crate::model::{MarkKind, Model};
use crate::playback::{Player, Span};
use crate::record::{Ending, How, ReadError};
use crate::source::replay::Replay;
use crate::tui::{
    self, Command, Direction, Fed, Feed, Timeline, Transport, TuiError, Wall, Wanted, cells,
};
use crate::units::escape;

/// While time goes by, it does so in steps of this.
const TICK: Duration = Duration::from_millis(20);
/// How often what the look through the file has found is shown, while it goes on.
const LOOK: Duration = Duration::from_millis(200);
/// Events folded before keys are asked for again: a few milliseconds.
const SLICE: usize = 5000;

/// Runs until the user quits.
pub async fn run(common: &Common, args: &ReplayArgs) -> Result<(), Failure> {
    let words: Vec<String> = args.filter.iter().cloned().collect();
    let choice = choose::Choice::new(common, &words)?;
    if common.script.is_some() {
        let text = "replay plays recordings: 'observer --script FILE' shows a script";
        return Err(Failure::Usage(text.to_owned()));
    }
    if let Some(size) = common.screen {
        let mut source = Replay::open(&args.file).map_err(|error| {
            Failure::Failed(anyhow::anyhow!("{}: {error}", args.file.display()))
        })?;
        return live::still(common, choice, &mut source, size).await;
    }
    if !tui::is_terminal() {
        return Err(Failure::Usage(
            "replay needs a terminal: 'observer export' makes lines of a recording, 'observer report' a table".to_owned(),
        ));
    }
    let config = live::settings(common)?;
    let path = args.file.display().to_string();
    let failed = |error: ReadError| Failure::Failed(anyhow::anyhow!("{}: {error}", escape(&path)));
    let player = Player::open(&args.file)
        .map_err(failed)?
        .of_path(common.path_rate);
    let Span { first, last } = player.span();
    let mut played = Played::new(player, args);
    if let Some(place) = args.at {
        let wall = Wall {
            offset_ns: played.wall_offset_ns(),
            zone: jiff::tz::TimeZone::system(),
        };
        let to = wall.moment(place, first, last);
        let to = to.map_err(|told| Failure::Usage(format!("--at: {told}")))?;
        played.go(to).map_err(failed)?;
    }
    let options = tui::Options {
        view: live::view(common, &config),
        refresh: config.refresh(),
        focus: Box::new(|_| ()),
        shows: Box::new(move |model, flow| choice.shows_live(model, flow)),
    };
    let model = tui::show(played, &options)
        .await
        .map_err(|error| Failure::Failed(error.into()))?;
    match model.lost() {
        lost @ 1.. if common.strict => Err(Failure::Lost(lost)),
        _ => Ok(()),
    }
}

/// A recording as the screen has it: the player stands where the transport says.
struct Played {
    player: Player,
    transport: Transport,
    name: String,
    /// The player is where the transport is.
    there: bool,
    /// Somebody waits for it to get there.
    sought: bool,
    /// When time was last seen to go by.
    ticked: Option<Instant>,
    /// The look through the file is over, and was shown.
    looked: bool,
    /// Bursts by cells, and of how many they are.
    bursts: (usize, Vec<bool>),
}

impl Played {
    fn new(player: Player, args: &ReplayArgs) -> Self {
        let Span { first, last } = player.span();
        let name = args.file.file_name().unwrap_or(args.file.as_os_str());
        Self {
            transport: Transport::file(first, last, args.speed),
            name: escape(&name.to_string_lossy()),
            player,
            there: false,
            sought: true,
            ticked: None,
            looked: false,
            bursts: (0, Vec::new()),
        }
    }

    fn go(&mut self, to: crate::units::Mono) -> Result<(), ReadError> {
        self.transport.go(to);
        self.follow()
    }

    /// To where the transport went.
    fn follow(&mut self) -> Result<(), ReadError> {
        self.player.seek(self.transport.at())?;
        self.there = false;
        self.sought = true;
        Ok(())
    }

    fn failed(&self, error: &ReadError) -> TuiError {
        TuiError::Feed(format!("{}: {error}", self.name))
    }

    /// Folds on. `true` = it is where it should be.
    fn fold(&mut self) -> Result<bool, TuiError> {
        let to = self.transport.at();
        // What was found meanwhile may be nearer.
        if !self.there {
            self.player.seek(to).map_err(|error| self.failed(&error))?;
        }
        let there = self.player.forward(to, SLICE);
        there.map_err(|error| self.failed(&error))
    }

    fn jump(
        &mut self,
        direction: Direction,
        kind: MarkKind,
        wanted: &Wanted<'_>,
    ) -> Result<Option<String>, ReadError> {
        let at = self.transport.at();
        let found = self.player.found();
        let marks = &found.marks;
        let model = self.player.model();
        let wanted = |mark: &crate::model::Mark| {
            mark.flow
                .is_none_or(|id| wanted(model, id, marks.flow(id).or_else(|| model.flow_told(id))))
        };
        let mark = match direction {
            Direction::Back => marks.before(kind, at, wanted),
            Direction::Forth => marks.after(kind, at, wanted),
        };
        let (done, total) = found.progress;
        let whole = found.ending.is_some();
        let full = marks.is_full();
        drop(found);
        if let Some(mark) = mark {
            self.go(mark.time)?;
            return Ok(None);
        }
        let mut told = tui::none(direction, kind);
        if !whole && direction == Direction::Forth {
            let share = done * 100 / total.max(1);
            told = format!("{told} so far: {share}% of the file are looked through, try again");
        } else if full {
            told += " among those kept: there are very many";
        }
        Ok(Some(told))
    }

    /// What is not as it should be with the file.
    fn trouble(&self) -> Option<String> {
        let found = self.player.found();
        match &found.ending {
            Some(Err(error)) => Some(format!("it cannot be read to its end: {error}")),
            Some(Ok(ending)) => torn(ending),
            None if self.player.is_indexed() => None,
            None => Some(
                "torn: it was not closed, or was cut off; looking how much is missing".to_owned(),
            ),
        }
    }
}

/// What of a file is missing, in a line.
fn torn(ending: &Ending) -> Option<String> {
    let damaged = match ending.damaged.as_slice() {
        [] => None,
        [one] => Some(one.to_string()),
        [one, more @ ..] => Some(format!("{one} (and {} more parts)", more.len())),
    };
    let cut = match ending.how {
        How::Truncated { at } => Some(format!(
            "torn at byte {at}: it was not closed, or was cut off; what came after is missing"
        )),
        How::Complete | How::NoIndex { .. } => None,
    };
    match (cut, damaged) {
        (Some(cut), Some(damaged)) => Some(format!("{cut}; {damaged}")),
        (cut, damaged) => cut.or(damaged),
    }
}

impl Feed for Played {
    fn source(&self) -> String {
        self.player.environment().source.clone()
    }

    fn wall_offset_ns(&self) -> Option<i64> {
        self.player.environment().wall_offset_ns
    }

    async fn next(&mut self) -> Result<Fed, TuiError> {
        if !self.there {
            // Keys come first, also on a long way.
            tokio::task::yield_now().await;
            self.there = self.fold()?;
            let now = self.there && std::mem::take(&mut self.sought);
            self.ticked = None;
            return Ok(if now { Fed::Now } else { Fed::More });
        }
        if self.transport.is_going() {
            sleep(TICK).await;
            #[expect(
                clippy::disallowed_methods,
                reason = "recorded time goes by as ours does"
            )]
            let now = Instant::now();
            let before = self.ticked.replace(now).unwrap_or(now);
            self.transport.elapse(now.duration_since(before));
            if !self.fold()? {
                self.transport.fall_back(self.player.model().now());
            }
            // At the end it stops at once.
            let going = self.transport.is_going();
            self.there = going || self.player.model().now() >= self.transport.at();
            return Ok(if going { Fed::More } else { Fed::Now });
        }
        self.ticked = None;
        if self.looked {
            return std::future::pending().await;
        }
        sleep(LOOK).await;
        self.looked = self.player.found().ending.is_some();
        Ok(Fed::More)
    }

    fn focus(&mut self, flows: &[FlowId]) {
        self.player.model_mut().focus(flows);
    }

    fn shown(&self) -> &Model {
        self.player.model()
    }

    fn act(&mut self, command: Command, wanted: &Wanted<'_>) -> Result<Option<String>, TuiError> {
        let before = self.transport;
        let told = match command {
            Command::Jump(direction, kind) => self.jump(direction, kind, wanted),
            Command::Toggle if before.is_at_end() => Ok(Some("this is the end".to_owned())),
            command => {
                self.transport.act(command);
                if before.at() == self.transport.at() {
                    Ok(None)
                } else {
                    self.follow().map(|()| None)
                }
            }
        };
        self.ticked = None;
        told.map_err(|error| self.failed(&error))
    }

    fn timeline(&mut self) -> Timeline {
        let Span { first, last } = self.player.span();
        let found = self.player.found();
        let marks = found.marks.of_kind(MarkKind::Burst);
        if self.bursts.0 != marks.len() || self.bursts.1.is_empty() {
            self.bursts = (marks.len(), cells(marks, first, last));
        }
        drop(found);
        Timeline {
            file: Some(self.name.clone()),
            transport: self.transport,
            at: self.transport.at(),
            now: last,
            seeking: !self.there,
            bursts: self.bursts.1.clone(),
            trouble: self.trouble(),
        }
    }

    fn into_model(self) -> Model {
        self.player.into_model()
    }
}
