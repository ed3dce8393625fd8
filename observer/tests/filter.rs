//! Filters over folded flows: what the model knows of a flow is what a filter asks.

use observer::event::FlowId;
use observer::filter::{Facts, Filter, States};
use observer::model::Model;
use observer::source::script::{self, NETNS};

const SCRIPT: &str = r#"
        device index=2 name=eth0 kind=-
@1s     opened 7 local=10.0.0.1:5201 remote=10.0.0.2:40000 birth=yes
+0      opened 8 local=10.0.0.1:5202 remote=[2001:db8::2]:40000
+0      attributes 7 local=10.0.0.1:5201 remote=10.0.0.2:40000 cc=bbr dev=2 cgroup_id=77 cgroup=/user.slice
+0      owners 7 4711/"Web Content"
+100ms  sample 7 state=ESTAB bytes_sent=100000 bytes_retrans=2000 retrans=2
+0      sample 8 state=ESTAB retrans=0
"#;

fn folded(more: &str) -> Model {
    let mut model = Model::default();
    for event in script::parse(&format!("{SCRIPT}{more}")).expect("a script") {
        model.apply(&event);
    }
    model
}

fn shown(model: &Model, filter: &Filter) -> Vec<u64> {
    let facts = |cookie| {
        let flow = model.flow(FlowId {
            cookie,
            netns: NETNS,
        });
        Facts::of(model, flow.expect("in view"))
    };
    let mut cookies = vec![7, 8];
    cookies.retain(|&cookie| filter.matches(&facts(cookie)));
    cookies
}

#[test]
fn a_filter_asks_what_the_model_knows() {
    let model = folded("");
    for (text, flows) in [
        ("", &[7, 8][..]),
        ("dst 10.0.0.2", &[7]),
        ("dst [2001:db8::]/32", &[8]),
        ("sport > :5201", &[8]),
        ("cc bbr dev eth0 dev 2 cgroup /user.slice cgroup 77", &[7]),
        ("not cc cubic", &[7]),
        ("pid 4711 comm \"Web Content\"", &[7]),
        ("not pid 4711", &[]),
        ("netns 4026531840", &[7, 8]),
        ("retrans", &[7]),
        ("retrans >= 2%", &[7]),
        ("not retrans", &[8]),
        ("state close-wait", &[]),
    ] {
        let filter = Filter::parse_str(text).expect(text);
        assert_eq!(shown(&model, &filter), flows, "{text}");
    }
}

#[test]
fn an_ended_flow_passes_where_all_states_do() {
    let model = folded("+0 sample 7 state=UNCONN\n+0 closed 7\n");
    let filter = Filter::parse_str("cc bbr").expect("a filter");
    assert_eq!(shown(&model, &filter), [0_u64; 0]);
    assert_eq!(shown(&model, &filter.unless_named(States::ALL)), [7]);
}
