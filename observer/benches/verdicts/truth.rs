//! What is known of a run: from `truth.csv` beside captures, from the labels of a recording. Only the bench reads it.

use std::collections::BTreeMap;

use observer::detect::Class;

#[derive(Clone, Debug)]
pub struct Truth {
    pub class: Class,
    pub cc: String,
    pub flows: usize,
    pub rate_bps: Option<f64>,
    /// Of the bucket or the queue.
    pub depth_bytes: Option<f64>,
    pub buffer_bdp: Option<f64>,
    /// Another cause is at work too.
    pub mixed: bool,
}

pub fn class(word: &str) -> Option<Class> {
    [
        Class::Policer,
        Class::QueueShallow,
        Class::Queue,
        Class::QueueDeep,
        Class::QueueStartup,
        Class::RandomLoss,
        Class::BurstyLoss,
        Class::None,
        Class::Insufficient,
    ]
    .into_iter()
    .find(|class| class.as_str() == word)
}

/// DETECTION §2.2: shallow under one BDP, deep above two.
fn queue(bdp: f64) -> Class {
    match bdp {
        shallow if shallow < 1.0 => Class::QueueShallow,
        deep if deep > 2.0 => Class::QueueDeep,
        _ => Class::Queue,
    }
}

/// The rows of `truth.csv`, by file name.
pub fn of_captures(csv: &str) -> BTreeMap<String, Truth> {
    let mut rows = csv::Reader::from_reader(csv.as_bytes());
    let headers = rows.headers().cloned().unwrap_or_default();
    let mut found = BTreeMap::new();
    for row in rows.records().flatten() {
        let cell = |name: &str| {
            let at = headers.iter().position(|header| header == name)?;
            row.get(at)
        };
        let number = |name: &str| cell(name).and_then(|text| text.parse::<f64>().ok());
        let rate_bps = number("rate_bps");
        let depth_bytes = number("bucket_or_queue_bytes");
        let bdp = rate_bps
            .zip(number("rtt_ms"))
            .map(|(rate, ms)| rate / 8.0 * ms / 1e3);
        let buffer_bdp = depth_bytes.zip(bdp).map(|(depth, bdp)| depth / bdp);
        let class = match cell("truth") {
            Some("policer") => Class::Policer,
            Some("queue") => buffer_bdp.map_or(Class::Queue, queue),
            other => match other.and_then(class) {
                Some(class) => class,
                None => continue,
            },
        };
        let (Some(file), Some(cc)) = (cell("file"), cell("cc")) else {
            continue;
        };
        let truth = Truth {
            class,
            cc: cc.to_owned(),
            flows: number("connections").map_or(1, |count| count as usize),
            rate_bps,
            depth_bytes,
            buffer_bdp: buffer_bdp.filter(|_| class.is_queue()),
            mixed: false,
        };
        found.insert(file.to_owned(), truth);
    }
    found
}

/// `Err`: why a recording is left out.
pub fn of_labels(labels: &BTreeMap<String, String>) -> Result<Truth, &'static str> {
    let text = |name: &str| labels.get(&format!("truth.{name}")).map(String::as_str);
    let number = |name: &str| text(name).and_then(|text| text.parse::<f64>().ok());
    let above = |name: &str| number(name).is_some_and(|value| value > 0.0);
    if text("held") == Some("false") {
        return Err("the path was not held");
    }
    let rate_bps = number("rate_bps").ok_or("no labels of truth")?;
    let bdp = number("bdp_bytes").filter(|bdp| *bdp > 0.0);
    let buffer_bdp = number("buffer_bytes")
        .zip(bdp)
        .map(|(bytes, bdp)| bytes / bdp);
    let policed = number("policer_rate_bps");
    let (random, bursts) = (above("loss"), above("burst_loss"));
    let limited = [
        "app_rate_bps",
        "rwnd_bytes",
        "sndbuf_bytes",
        "max_pacing_bps",
    ];
    let by_path = || {
        if policed.is_some() {
            Class::Policer
        } else if bursts {
            Class::BurstyLoss
        } else if random {
            Class::RandomLoss
        } else if limited.into_iter().any(above) {
            Class::None
        } else {
            buffer_bdp.map_or(Class::Queue, queue)
        }
    };
    let class = text("class").and_then(class).unwrap_or_else(by_path);
    let is_queue = class.is_queue();
    Ok(Truth {
        class,
        cc: text("cc").unwrap_or("?").to_owned(),
        flows: number("flows").map_or(1, |count| count as usize),
        rate_bps: policed.or(Some(rate_bps)),
        depth_bytes: if is_queue {
            number("buffer_bytes")
        } else {
            number("policer_burst_bytes")
        },
        buffer_bdp: buffer_bdp.filter(|_| is_queue),
        mixed: (policed.is_some() || is_queue) && (random || bursts),
    })
}
