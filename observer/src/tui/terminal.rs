//! The terminal: raw mode and the alternate screen, given back on every way out.

use std::io::{self, IsTerminal, Stdout, stdout};
use std::mem::ManuallyDrop;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};

use crossterm::cursor::{Hide, Show};
use crossterm::event::{
    DisableBracketedPaste, DisableMouseCapture, EnableBracketedPaste, EnableMouseCapture,
};
use crossterm::execute;
use crossterm::terminal::{
    Clear, ClearType, EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

static TAKEN: AtomicBool = AtomicBool::new(false);
static HOOK: Once = Once::new();

/// Whether there is somebody to look and to type.
pub fn is_terminal() -> bool {
    stdout().is_terminal() && io::stdin().is_terminal()
}

/// Whether the terminal went away, as when its window is closed. Whoever is not in the shell's foreground is not told by
/// a signal, and crossterm waits on for keys.
pub fn is_gone() -> bool {
    let stdin = io::stdin();
    let mut ends = [PollFd::new(&stdin, PollFlags::empty())];
    let hung_up = PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL;
    let now = Timespec::default();
    poll(&mut ends, Some(&now)).is_ok_and(|n| n > 0) && ends[0].revents().intersects(hung_up)
}

/// The terminal while it is ours. Dropping it gives it back.
#[derive(Debug)]
pub struct Screen {
    /// Clicks come to us, not to the terminal's own selection.
    mouse: bool,
    /// Never dropped: that shows the cursor, which [`give_back`] does, and panics where the terminal is gone.
    pub terminal: ManuallyDrop<Terminal<CrosstermBackend<Stdout>>>,
}

impl Screen {
    /// Takes the terminal. A panic gives it back before its message is printed.
    pub fn take(mouse: bool) -> io::Result<Self> {
        HOOK.call_once(|| {
            let before = std::panic::take_hook();
            std::panic::set_hook(Box::new(move |info| {
                give_back();
                before(info);
            }));
        });
        enter(mouse)?;
        let terminal = Terminal::new(CrosstermBackend::new(stdout()));
        if terminal.is_err() {
            give_back();
        }
        Ok(Self {
            mouse,
            terminal: ManuallyDrop::new(terminal?),
        })
    }

    /// Takes the mouse, or leaves it to the terminal, so that text can be selected.
    pub fn mouse(&mut self, taken: bool) -> io::Result<()> {
        self.mouse = taken;
        if taken {
            execute!(stdout(), EnableMouseCapture)
        } else {
            execute!(stdout(), DisableMouseCapture)
        }
    }

    /// Stops the process group as Ctrl-Z does in a shell: a script around us stops too. Returns when it is continued, or
    /// at once where nobody is there to continue it (the kernel ignores the signal then).
    pub fn suspend(&mut self) -> io::Result<()> {
        give_back();
        rustix::process::kill_current_process_group(rustix::process::Signal::TSTP)?;
        self.resume()
    }

    /// Takes the terminal again, whatever was done to it.
    pub fn resume(&mut self) -> io::Result<()> {
        give_back();
        enter(self.mouse)?;
        self.redraw()
    }

    /// The next frame draws everything. Not by `Terminal::clear`: that asks the terminal where its cursor is and
    /// waits for an answer, which some never give.
    pub fn redraw(&mut self) -> io::Result<()> {
        execute!(stdout(), Clear(ClearType::All))?;
        let anew = Terminal::new(CrosstermBackend::new(stdout()))?;
        let before = std::mem::replace(&mut self.terminal, ManuallyDrop::new(anew));
        drop(ManuallyDrop::into_inner(before));
        execute!(stdout(), Hide)
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        give_back();
    }
}

fn enter(mouse: bool) -> io::Result<()> {
    enable_raw_mode()?;
    TAKEN.store(true, Ordering::SeqCst);
    let entered = execute!(stdout(), EnterAlternateScreen, EnableBracketedPaste, Hide);
    let entered = entered.and_then(|()| {
        if mouse {
            execute!(stdout(), EnableMouseCapture)
        } else {
            Ok(())
        }
    });
    entered.inspect_err(|_| give_back())
}

/// Does what can be done; twice is no harm.
fn give_back() {
    if TAKEN.swap(false, Ordering::SeqCst) {
        // Leaving the mouse where it was never taken is no harm either.
        let _ = execute!(
            stdout(),
            DisableMouseCapture,
            DisableBracketedPaste,
            LeaveAlternateScreen,
            Show
        );
        let _ = disable_raw_mode();
    }
}
