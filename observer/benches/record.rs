//! `cargo xtask bench record`: how fast recordings are written, read and folded, how many bytes a sample takes, what opening costs.
//!
//! On made-up flows, and on real ones: a recording given by `--file`, or what a few loopback flows gave here.

#![expect(clippy::disallowed_methods, reason = "a benchmark measures wall time")]

mod common;

use std::fs::File;
use std::io::{BufReader, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use clap::Parser;
use observer::event::{
    CaState, Cause, CcState, Cubic, Event, FlowId, LimitClocks, Opened, Origin, PacingStatus,
    Payload, Sample, TcpState,
};
use observer::kernel::load::Options;
use observer::model::Model;
use observer::record::{Environment, Reader, Writer};
use observer::source::Source as _;
use observer::source::live::{Live, LiveOptions};
use observer::units::{Limit, Mono};

use common::{Flows, Summary, at_least, bar};

#[derive(Debug, Parser)]
struct Args {
    /// Seconds of made-up flows, and of real ones
    #[arg(long, default_value_t = 20)]
    seconds: u64,
    /// Rounds of each measurement
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// A recording to measure beside
    #[arg(long)]
    file: Vec<PathBuf>,
    /// Whether to leave the real flows out
    #[arg(long)]
    no_real: bool,
    /// Bytes of the large file; 0 = none
    #[arg(long, default_value_t = 1 << 30)]
    large: u64,
    /// Only opens, seeks and reads this one (the large file, in a process of its own)
    #[arg(long, hide = true)]
    only: Option<PathBuf>,
    /// What `cargo bench` passes
    #[arg(long, hide = true)]
    bench: bool,
}

fn main() -> Result<()> {
    let args = Args::parse();
    if let Some(path) = &args.only {
        return only(path);
    }
    println!("record: {}\n", common::machine());
    println!(
        "{:<44} {:>9} {:>9}  {:>14} {:>14} {:>14}",
        "events (rates: per second of one core)",
        "samples",
        "B/sample",
        "written/s",
        "decoded/s",
        "and folded/s"
    );
    let second = 1_000_000_000 / 10_000_000;
    let mut worst = Worst::default();
    for flows in [1, 4, 100] {
        let events = made_up(flows, args.seconds * second);
        worst.add(measure(
            &format!("made up, {flows} flows at 10 ms"),
            &events,
            args.rounds,
        )?);
    }
    for path in &args.file {
        let events = read(path)?;
        worst.add(measure(&path.display().to_string(), &events, args.rounds)?);
    }
    if args.no_real {
        println!("real flows were left out");
    } else if rustix::process::geteuid().is_root() {
        common::enter_new_netns().context("no network namespace")?;
        for (name, interval_ns) in [("10 ms", 10_000_000), ("every ACK", 0)] {
            let events = real(interval_ns, Duration::from_secs(args.seconds.min(10)))?;
            worst.add(measure(
                &format!("4 loopback flows, {name}"),
                &events,
                args.rounds,
            )?);
        }
    } else {
        println!("not root: nothing real is recorded here");
    }
    if args.large > 0 {
        large(args.large)?;
    }
    println!();
    bar("bytes per sample, the worst", worst.bytes, 30.0, "");
    at_least("samples/s written, the worst", worst.written, 1e6, "");
    at_least(
        "events/s decoded and folded, the worst",
        worst.folded,
        2e6,
        "",
    );
    Ok(())
}

struct Worst {
    bytes: f64,
    written: f64,
    folded: f64,
}

impl Default for Worst {
    fn default() -> Self {
        Self {
            bytes: 0.0,
            written: f64::INFINITY,
            folded: f64::INFINITY,
        }
    }
}

impl Worst {
    fn add(&mut self, (bytes, written, folded): (f64, f64, f64)) {
        self.bytes = self.bytes.max(bytes);
        self.written = self.written.min(written);
        self.folded = self.folded.min(folded);
    }
}

fn environment() -> Environment {
    Environment {
        tool: env!("CARGO_PKG_VERSION").to_owned(),
        ..Environment::default()
    }
}

/// Bytes per sample; samples written, events decoded and folded per second of a core.
fn measure(name: &str, events: &[Event], rounds: usize) -> Result<(f64, f64, f64)> {
    let samples = events
        .iter()
        .filter(|event| matches!(event.payload, Payload::Sample(_)))
        .count();
    let dir = tempfile::tempdir()?;
    let path = dir.path().join("bench.mcap");
    let (mut write, mut decode, mut fold) = (Vec::new(), Vec::new(), Vec::new());
    let mut bytes = 0;
    for _ in 0..rounds {
        let begun = core_s();
        let mut writer = Writer::new(File::create(&path)?, &environment())?;
        let overhead = writer.totals().bytes;
        for event in events {
            writer.push(event)?;
        }
        writer.seal()?;
        write.push(samples as f64 / (core_s() - begun));
        // Schemas and index do not grow with the samples.
        bytes = writer.totals().bytes - overhead;
        writer.finish()?;

        let begun = core_s();
        let mut reader = Reader::open(&path)?;
        let mut read = 0;
        while let Some(batch) = reader.batch()? {
            read += batch.len();
        }
        decode.push(read as f64 / (core_s() - begun));

        let begun = core_s();
        let (mut reader, mut model) = (Reader::open(&path)?, Model::default());
        while let Some(batch) = reader.batch()? {
            for event in &batch {
                model.apply(event);
            }
            model.take_derived();
        }
        fold.push(read as f64 / (core_s() - begun));
    }
    let [write, decode, fold] = [write, decode, fold].map(Summary::of);
    let each = bytes as f64 / samples as f64;
    println!(
        "{name:<44} {samples:>9} {each:>9.1}  {:>14.0} {:>14.0} {:>14.0}",
        write.median, decode.median, fold.median
    );
    Ok((each, write.median, fold.median))
}

/// Of this thread on its core: what others do beside changes it little. Nothing here works in another thread.
fn core_s() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

fn read(path: &Path) -> Result<Vec<Event>> {
    let mut reader = Reader::open(path)?;
    let mut events = Vec::new();
    while let Some(batch) = reader.batch()? {
        events.extend(batch);
    }
    Ok(events)
}

/// What the live source gives of flows that send as fast as they can.
fn real(interval_ns: u64, time: Duration) -> Result<Vec<Event>> {
    let options = LiveOptions {
        kernel: Options {
            interval_ns,
            ..Options::default()
        },
        ..LiveOptions::default()
    };
    let mut live = Live::start(&options)?;
    let handle = live.handle();
    let flows = Flows::start(4)?;
    let stopper = std::thread::spawn(move || {
        std::thread::sleep(time);
        handle.stop();
    });
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    let mut events = Vec::new();
    runtime.block_on(async {
        while let Some(batch) = live.next().await? {
            events.extend(batch);
        }
        Ok::<_, observer::source::SourceError>(())
    })?;
    drop(flows);
    let _ = stopper.join();
    Ok(events)
}

/// Draws numbers.
struct Draw(u64);

impl Draw {
    fn below(&mut self, most: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11) % most.max(1)
    }

    /// About `value`: 1/16 up or down.
    fn about(&mut self, value: u64) -> u64 {
        value - value / 16 + self.below(value / 8 + 1)
    }
}

/// Flows of CUBIC on a path of 40 ms at some 50 Mbit/s, a sample about every 10 ms, all quantities moving as they do there.
fn made_up(flows: u64, rows: u64) -> Vec<Event> {
    let mut draw = Draw(7);
    let mut samples: Vec<(u64, Sample)> = (0..flows)
        .map(|flow| (flow * 1_000_000, first_sample()))
        .collect();
    let mut events = Vec::new();
    for (flow, _) in samples.iter().enumerate() {
        events.push(event(0, flow as u64, opened(flow as u64)));
    }
    for row in 0..rows {
        for (flow, (time, sample)) in samples.iter_mut().enumerate() {
            *time += draw.about(10_000_000);
            step(&mut draw, sample, row);
            let payload = Payload::Sample(Box::new(sample.clone()));
            events.push(event(*time, flow as u64, payload));
        }
    }
    events.sort_by_key(|event| event.time);
    events
}

fn event(time: u64, flow: u64, payload: Payload) -> Event {
    Event {
        time: Mono(1_000_000_000_000 + time),
        flow: Some(FlowId {
            cookie: flow + 1,
            netns: 4_026_531_840,
        }),
        payload,
    }
}

fn opened(flow: u64) -> Payload {
    Payload::Opened(Opened {
        from_start: true,
        state: TcpState::SynSent,
        local: SocketAddr::from(([10, 0, 0, 1], 40_000 + flow as u16)),
        remote: SocketAddr::from(([10, 0, 0, 2], 443)),
    })
}

/// One step of 10 ms: some 43 segments delivered.
fn step(draw: &mut Draw, s: &mut Sample, row: u64) {
    let segments = draw.about(43) as u32;
    let bytes = segments * s.mss;
    let add = |total: &mut Option<u32>, more: u32| *total = total.map(|t| t.wrapping_add(more));
    for total in [&mut s.snd_una, &mut s.snd_nxt, &mut s.write_seq] {
        add(total, bytes);
    }
    for total in [&mut s.delivered, &mut s.segs_out, &mut s.data_segs_out] {
        add(total, segments);
    }
    add(&mut s.segs_in, segments / 2 + 1);
    for total in [&mut s.bytes_acked, &mut s.bytes_sent] {
        *total = total.map(|t| t + u64::from(bytes));
    }
    s.packets_out = draw.about(170) as u32;
    s.rtt_us = Some(draw.about(40_000) as u32);
    s.srtt_us = s
        .srtt_us
        .zip(s.rtt_us)
        .map(|(srtt, rtt)| srtt - srtt / 8 + rtt / 8);
    s.rttvar_us = Some(draw.about(900) as u32);
    s.rto_us = Some(240_000 + draw.below(3) * 4000);
    let cwnd = (170 + row % 60 / 4) as u32;
    s.cwnd = Some(cwnd);
    s.delivery_rate = Some(draw.about(6_200_000));
    let pacing = u64::from(cwnd) * u64::from(s.mss) * 1_200_000 / 40_000;
    s.pacing_rate = Some(Limit::Finite(pacing));
    s.notsent_bytes = Some(draw.about(60_000) as u32);
    s.wmem_queued_bytes = Some(draw.about(500_000) as u32);
    s.clocks = s.clocks.map(|clocks| LimitClocks {
        busy_us: clocks.busy_us + draw.below(2) * 4000 + 8000,
        ..clocks
    });
    if draw.below(400) == 0 {
        s.retrans += 2;
        s.bytes_retrans = s.bytes_retrans.map(|b| b + 2 * u64::from(s.mss));
        s.lost_total = s.lost_total.map(|lost| lost + 2);
        s.ssthresh = Some(Limit::Finite(cwnd / 2));
    }
}

fn first_sample() -> Sample {
    Sample {
        origin: Origin::Ebpf,
        cause: Cause::Ack,
        state: TcpState::Established,
        ca_state: CaState::Open,
        cwnd: Some(10),
        ssthresh: Some(Limit::Unlimited),
        packets_out: 10,
        sacked_out: 0,
        lost_out: 0,
        retrans_out: 0,
        snd_una: Some(2_345_678_901),
        snd_nxt: Some(2_345_900_000),
        write_seq: Some(2_346_000_000),
        rcv_nxt: Some(1_234_567_890),
        notsent_bytes: Some(0),
        snd_wnd_bytes: Some(3_145_728),
        max_window_bytes: Some(3_145_728),
        rcv_wnd_bytes: Some(64_256),
        rtt_us: Some(40_000),
        srtt_us: Some(40_000),
        rttvar_us: Some(900),
        min_rtt_us: Some(39_800),
        rcv_rtt_us: None,
        rto_us: Some(240_000),
        delivery_rate: None,
        rate_app_limited: false,
        app_limited: Some(false),
        pacing_rate: Some(Limit::Finite(6_000_000)),
        pacing_status: Some(PacingStatus::Fq),
        mss: 1448,
        delivered: Some(1),
        delivered_ce: Some(0),
        lost_total: Some(0),
        bytes_sent: Some(0),
        bytes_acked: Some(0),
        bytes_retrans: Some(0),
        bytes_received: Some(0),
        segs_out: Some(2),
        segs_in: Some(1),
        data_segs_out: Some(0),
        data_segs_in: Some(0),
        retrans: 0,
        dsack_dups: Some(0),
        reord_seen: Some(0),
        rcv_ooopack: Some(0),
        reordering: Some(3),
        clocks: Some(LimitClocks::default()),
        sndbuf_bytes: Some(4_194_304),
        rcvbuf_bytes: Some(131_072),
        wmem_queued_bytes: Some(0),
        cwnd_limited: Some(true),
        backoff: Some(0),
        cc: Some(CcState::Cubic(Cubic {
            last_max_cwnd: Some(200),
            last_cwnd: Some(170),
            origin_point: Some(200),
            k: Some(2400),
            delay_min_us: Some(39_800),
            hystart_found: Some(false),
        })),
    }
}

/// Opening, index and seeking in a file of so many bytes, and what memory it takes.
fn large(bytes: u64) -> Result<()> {
    let dir = tempfile::tempdir()?;
    let path = dir.path().join("large.mcap");
    let minute = made_up(100, 6000);
    let span = 61_000_000_000;
    let mut writer = Writer::new(File::create(&path)?, &environment())?;
    let mut round = 0;
    while writer.totals().bytes < bytes {
        for event in &minute {
            let time = event.time.plus(round * span);
            writer.push(&Event {
                time,
                ..event.clone()
            })?;
        }
        round += 1;
    }
    let totals = writer.finish()?;
    let torn = dir.path().join("torn.mcap");
    std::fs::copy(&path, &torn)?;
    File::options()
        .write(true)
        .open(&torn)?
        .set_len(totals.bytes - 1)?;
    println!(
        "\na file of {:.2} GB, {} samples",
        totals.bytes as f64 / 1e9,
        totals.samples
    );
    for (name, path) in [("with its index", &path), ("its index torn off", &torn)] {
        print!("{name:<24} ");
        std::io::stdout().flush()?;
        let status = std::process::Command::new(std::env::current_exe()?)
            .arg("--only")
            .arg(path)
            .status()?;
        anyhow::ensure!(status.success(), "it could not be read");
    }
    Ok(())
}

/// In a process of its own: what memory reading takes.
fn only(path: &Path) -> Result<()> {
    let begun = Instant::now();
    let mut reader: Reader<BufReader<File>> = Reader::open(path)?;
    let index = reader.index()?;
    let opened = begun.elapsed();
    let first = reader.batch()?.unwrap_or_default();
    let first = first.first().map_or(0, |event| event.time.0);
    let last = index.entries.iter().map(|entry| entry.end.0).max();
    let span = last.unwrap_or(first) - first;
    let mut seeks = Vec::new();
    for part in 1..20 {
        let at = Mono(first + span / 20 * part);
        let begun = Instant::now();
        reader.seek(&index, at)?;
        reader.batch()?;
        seeks.push(begun.elapsed().as_secs_f64() * 1e3);
    }
    let seeks = Summary::of(seeks);
    reader.seek(&index, Mono(0))?;
    let mut events = 0;
    while let Some(batch) = reader.batch()? {
        events += batch.len();
    }
    println!(
        "opened in {:.3} s ({} chunks), a seek and its chunk in {:.1} ms, {:.1} at most; all {events} events read, \
         peak memory {} MB",
        opened.as_secs_f64(),
        index.entries.len(),
        seeks.median,
        seeks.max,
        peak_mb().unwrap_or(0)
    );
    Ok(())
}

fn peak_mb() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(line.trim().split(' ').next()?.parse::<u64>().ok()? / 1024)
}
