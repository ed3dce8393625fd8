//! The flow table's order and groups, kept from frame to frame: the same as reckoned anew.

use observer::event::Event;
use observer::filter::Filter;
use observer::model::Model;
use observer::source::script;
use observer::tui::columns::Column;
use observer::tui::{Grouping, TableLine, ViewState};
use proptest::prelude::*;
use ratatui::layout::Rect;

/// What may happen to one of a few flows, or to all, between two frames.
#[derive(Clone, Debug)]
enum Step {
    Event(String),
    /// Seconds in which nothing comes.
    Silence(u32),
}

fn step() -> impl Strategy<Value = Step> {
    let flow = 1..7_u32;
    prop_oneof![
        1 => (flow.clone(), 1..250_u32).prop_map(|(n, host)| Step::Event(format!(
            "opened {n} local=192.0.2.1:443 remote=10.0.{n}.{host}:5000"
        ))),
        1 => (flow.clone(), prop_oneof!["cubic", "bbr", "reno"], 1..3_u32).prop_map(|(n, cc, dev)| Step::Event(
            format!("attributes {n} local=192.0.2.1:443 remote=10.0.{n}.9:5000 cc={cc} dev={dev}")
        )),
        1 => (flow.clone(), 1..4_u32).prop_map(|(n, name)| Step::Event(format!("owners {n} 10{n}/worker-{name}"))),
        1 => flow.clone().prop_map(|n| Step::Event(format!("closed {n}"))),
        6 => (flow, 0..60_u32, 0..40_u32, 1..900_u32, prop_oneof!["Open", "Recovery"]).prop_map(
            |(n, acked, lost, out, ca)| Step::Event(format!(
                "sample {n} cwnd={out} mss=1448 srtt={out}ms min_rtt=20ms packets_out={out} snd_wnd=1000000 ca_state={ca} \
                 bytes_acked={acked}00000 bytes_sent={acked}50000 bytes_retrans={lost}000 delivery_rate={out}mbit \
                 app_limited=no busy={acked}ms"
            ))
        ),
        2 => (1..4_u32).prop_map(Step::Silence),
    ]
}

/// Flows and groups in the order of the screen, with what the groups add up to.
fn arranged(state: &ViewState) -> Vec<String> {
    let line = |line: &TableLine| match line {
        TableLine::Flow(id) => format!("{id:?}"),
        TableLine::Group(place) => {
            let group = state.flows.groups.get(*place).expect("a group");
            let (bps, rate) = (group.throughput_bps, group.retrans_rate());
            let flows = (group.open, group.closed);
            format!(
                "{} {flows:?} {bps:?} {:?} {rate:?}",
                group.name.0, group.inflight_bytes
            )
        }
    };
    state.flows.lines.iter().map(line).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// What is kept from frame to frame says the same as what is reckoned anew.
    #[test]
    fn what_is_kept_is_what_would_be_reckoned(
        steps in proptest::collection::vec((step(), 0..900_u64), 1..60),
        column in 0..Column::ALL.len(),
        grouping in 0..Grouping::ALL.len(),
        descending: bool,
        filtered: bool,
    ) {
        let filter = || Filter::parse_str("cc bbr or cc reno").expect("a filter");
        let wanted = || {
            let mut state = ViewState::default();
            state.flows.sort = Column::ALL[column];
            state.flows.grouping = Grouping::ALL[grouping];
            state.flows.descending = descending;
            state.flows.filter = filtered.then(filter);
            state
        };
        let mut model = Model::default();
        let begin = "@1s host hostname=lab kernel=6.18.0 hz=250 cpus=2 default_qdisc=fq default_cc=cubic\n\
             +0 device index=1 name=lo up=yes\n+0 qdisc index=1 kind=noqueue handle=0: parent=root\n\
             +0 device index=2 name=eth0 up=yes\n+0 qdisc index=2 kind=fq handle=8001: parent=root drops=3\n";
        let mut at_ms = 1000;
        let events = |text: &str| -> Vec<Event> { script::parse(text).expect("a script") };
        for event in events(begin) {
            model.apply(&event);
        }
        let mut kept = wanted();
        for (step, ms) in steps {
            at_ms += ms;
            let text = match step {
                Step::Event(text) => format!("@{at_ms}ms {text}\n"),
                Step::Silence(seconds) => {
                    at_ms += u64::from(seconds) * 1000;
                    format!("@{at_ms}ms tick\n")
                }
            };
            for event in events(&text) {
                model.apply(&event);
            }
            let mut anew = wanted();
            for state in [&mut kept, &mut anew] {
                state.prepare(&model, &|_, _| true, Rect::new(0, 0, 80, 24));
            }
            prop_assert_eq!(arranged(&kept), arranged(&anew));
            prop_assert_eq!(kept.flows.open, anew.flows.open);
            prop_assert_eq!(&kept.flows.census.devices, &anew.flows.census.devices);
            prop_assert_eq!(&kept.flows.census.ccs, &anew.flows.census.ccs);
        }
    }
}
