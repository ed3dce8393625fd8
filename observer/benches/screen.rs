//! `cargo xtask bench screen`: one frame of the dashboard over many flows, from the model to the terminal's buffer.

#![expect(clippy::disallowed_methods, reason = "a benchmark measures wall time")]

// Of its helpers this one needs the machine and the bar.
mod common;

use std::time::Instant;

use anyhow::Result;
use clap::Parser;
use observer::event::Event;
use observer::model::Model;
use observer::source::script;
use observer::tui::columns::Column;
use observer::tui::{Grouping, ViewState, draw};
use ratatui::Terminal;
use ratatui::backend::TestBackend;

use common::bar;

#[derive(Debug, Parser)]
struct Args {
    /// Flows of the model
    #[arg(long, default_value_t = 20_000)]
    flows: u32,
    /// Frames of each view
    #[arg(long, default_value_t = 200)]
    frames: usize,
    /// What `cargo bench` passes
    #[arg(long, hide = true)]
    bench: bool,
}

/// SPEC §9: p99 of a frame, in milliseconds.
const MOST_MS: f64 = 16.0;

/// What is looked at.
struct View {
    name: &'static str,
    set: fn(&mut ViewState),
}

const VIEWS: [View; 10] = [
    View {
        name: "by throughput",
        set: |_| {},
    },
    View {
        name: "by retransmit rate",
        set: |state| state.flows.sort = Column::RetransRate,
    },
    View {
        name: "by BDP fill",
        set: |state| state.flows.sort = Column::Fill,
    },
    View {
        name: "by limit",
        set: |state| state.flows.sort = Column::Limit,
    },
    View {
        name: "by process",
        set: |state| state.flows.sort = Column::Process,
    },
    View {
        name: "by qdisc",
        set: |state| state.flows.sort = Column::Qdisc,
    },
    View {
        name: "grouped by process",
        set: |state| state.flows.group_by(Grouping::Process),
    },
    View {
        name: "grouped by prefix",
        set: |state| state.flows.group_by(Grouping::Prefix),
    },
    // A group a flow.
    View {
        name: "grouped by peer",
        set: |state| state.flows.group_by(Grouping::Peer),
    },
    View {
        name: "grouped by cc",
        set: |state| state.flows.group_by(Grouping::Cc),
    },
];

fn main() -> Result<()> {
    let args = Args::parse();
    println!("screen: {}", common::machine());
    println!(
        "{} flows, {} frames of each view; between two frames 1,000 samples, which are not counted",
        args.flows, args.frames
    );
    let mut model = Model::default();
    let mut traffic = Traffic::new(args.flows)?;
    traffic.begin(&mut model)?;
    println!("CPU: of the drawing thread alone; beyond it, others had the core");
    println!(
        "{:<10} {:<20} {:>9} {:>9} {:>9} {:>11} {:>11}",
        "size", "view", "p50 ms", "p99 ms", "most ms", "CPU p50 ms", "CPU p99 ms"
    );
    let (mut worst, mut worst_cpu): (f64, f64) = (0.0, 0.0);
    for (width, height) in [(120, 40), (300, 80)] {
        for view in &VIEWS {
            let frames = frames(&mut model, &mut traffic, view, (width, height), args.frames)?;
            let sorted = |of: fn(&Cost) -> f64| {
                let mut times: Vec<f64> = frames.iter().map(of).collect();
                times.sort_by(f64::total_cmp);
                times
            };
            let (times, cpu) = (sorted(|cost| cost.wall_ms), sorted(|cost| cost.cpu_ms));
            let (p99, cpu_p99) = (quantile(&times, 0.99), quantile(&cpu, 0.99));
            (worst, worst_cpu) = (worst.max(p99), worst_cpu.max(cpu_p99));
            println!(
                "{:<10} {:<20} {:>9.2} {:>9.2} {:>9.2} {:>11.2} {:>11.2}",
                format!("{width}×{height}"),
                view.name,
                quantile(&times, 0.5),
                p99,
                quantile(&times, 1.0),
                quantile(&cpu, 0.5),
                cpu_p99,
            );
        }
    }
    bar("the worst p99 of a frame", worst, MOST_MS, " ms");
    bar("the same in CPU time", worst_cpu, MOST_MS, " ms");
    Ok(())
}

fn quantile(sorted: &[f64], q: f64) -> f64 {
    let last = sorted.len().saturating_sub(1) as f64;
    sorted
        .get((last * q).ceil() as usize)
        .copied()
        .unwrap_or(f64::NAN)
}

/// What a frame took.
struct Cost {
    wall_ms: f64,
    cpu_ms: f64,
}

fn thread_cpu_ms() -> f64 {
    let used = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    used.tv_sec as f64 * 1e3 + used.tv_nsec as f64 / 1e6
}

fn frames(
    model: &mut Model,
    traffic: &mut Traffic,
    view: &View,
    (width, height): (u16, u16),
    count: usize,
) -> Result<Vec<Cost>> {
    let mut terminal = Terminal::new(TestBackend::new(width, height))?;
    let mut state = ViewState::default();
    (view.set)(&mut state);
    let mut times = Vec::with_capacity(count);
    for _ in 0..count {
        traffic.go_on(model);
        let (start, cpu) = (Instant::now(), thread_cpu_ms());
        terminal.draw(|frame| {
            state.prepare(model, &|_, _| true, frame.area());
            draw(model, &state, "eBPF", frame);
        })?;
        times.push(Cost {
            wall_ms: start.elapsed().as_secs_f64() * 1000.0,
            cpu_ms: thread_cpu_ms() - cpu,
        });
    }
    Ok(times)
}

/// Samples of all flows in turn.
struct Traffic {
    flows: u32,
    /// Of the next sample: flow and round.
    next: u32,
    round: u64,
    sample: Event,
}

impl Traffic {
    fn new(flows: u32) -> Result<Self> {
        let sample = script::parse(
            "@1s sample 1 cwnd=100 mss=1448 srtt=40ms min_rtt=30ms rtt=41ms packets_out=60 snd_wnd=1000000 app_limited=no \
             notsent=50000 pacing_rate=20mbit delivery_rate=15mbit busy=1s bytes_acked=0 bytes_sent=0 bytes_retrans=0 cc=bbr phase=PROBE_BW/UP btlbw=20mbit",
        )?;
        let sample = sample.into_iter().next().expect("one event was written");
        Ok(Self {
            flows,
            next: 0,
            round: 0,
            sample,
        })
    }

    /// Hosts, devices, flows, and as many samples of each as the model keeps.
    fn begin(&mut self, model: &mut Model) -> Result<()> {
        let mut text = String::from(
            "@1s host hostname=lab kernel=6.18.0 hz=250 cpus=2 default_qdisc=fq default_cc=cubic\n\
             +0 device index=1 name=lo up=yes\n+0 qdisc index=1 kind=noqueue handle=0: parent=root\n\
             +0 device index=2 name=eth0 up=yes\n+0 qdisc index=2 kind=fq handle=8001: parent=root drops=3\n",
        );
        for n in 0..self.flows {
            use std::fmt::Write as _;
            let (a, b, c) = (n / 65536 % 256, n / 256 % 256, n % 256);
            let (local, remote) = (
                "192.0.2.1:443",
                format!("10.{a}.{b}.{c}:{}", 1024 + n % 60000),
            );
            let cc = ["cubic", "bbr", "reno"][n as usize % 3];
            writeln!(text, "+0 opened {n} local={local} remote={remote}")?;
            writeln!(
                text,
                "+0 attributes {n} local={local} remote={remote} cc={cc} dev=2"
            )?;
            writeln!(text, "+0 owners {n} {}/worker-{}", 1000 + n % 500, n % 40)?;
        }
        for event in script::parse(&text)? {
            model.apply(&event);
        }
        for _ in 0..self.flows * 14 {
            self.one(model);
        }
        Ok(())
    }

    fn go_on(&mut self, model: &mut Model) {
        for _ in 0..1000 {
            self.one(model);
        }
    }

    fn one(&mut self, model: &mut Model) {
        let n = u64::from(self.next);
        let event = &mut self.sample;
        // A round of all flows takes a fifth of a second.
        let step = 200_000_000 / u64::from(self.flows);
        event.time.0 += step;
        event.flow = event.flow.map(|mut id| {
            id.cookie = n;
            id
        });
        if let observer::event::Payload::Sample(sample) = &mut event.payload {
            let acked = self.round * (n * 7919 % 1_000_003 + 1000);
            sample.bytes_acked = Some(acked);
            sample.bytes_sent = Some(acked + acked / 50);
            sample.bytes_retrans = Some(acked * (n % 30) / 1000);
            sample.cwnd = Some(10 + (n % 1000) as u32);
            sample.srtt_us = Some(40_000 + (n * 31 % 90_000) as u32);
            if let Some(clocks) = &mut sample.clocks {
                clocks.busy_us = self.round * 200_000;
            }
        }
        model.apply(event);
        self.next += 1;
        if self.next == self.flows {
            self.next = 0;
            self.round += 1;
        }
    }
}
