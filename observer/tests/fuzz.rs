//! The fuzz targets over seeds and a bounded number of mutations of them; `cargo xtask fuzz` goes on from the same seeds.

#[allow(dead_code, reason = "a part of it")]
#[path = "import_support/mod.rs"]
mod import_support;
#[path = "../fuzz/targets.rs"]
mod targets;

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use fastrand::Rng;
use import_support::{Link, Maker, pcap, pcapng};

struct Target {
    name: &'static str,
    run: fn(&[u8]),
    seeds: fn() -> Vec<Vec<u8>>,
    /// Mutations that take less than a second, unoptimised.
    mutations: usize,
}

const TARGETS: [Target; 7] = [
    Target {
        name: "btf",
        run: targets::btf,
        seeds: btf,
        mutations: 100,
    },
    Target {
        name: "config",
        run: targets::config,
        seeds: config,
        mutations: 300,
    },
    Target {
        name: "filter",
        run: targets::filter,
        seeds: filter,
        mutations: 500,
    },
    Target {
        name: "import",
        run: targets::import,
        seeds: import,
        mutations: 20,
    },
    Target {
        name: "netlink",
        run: targets::netlink,
        seeds: netlink,
        mutations: 1500,
    },
    Target {
        name: "proc",
        run: targets::proc,
        seeds: proc,
        mutations: 800,
    },
    Target {
        name: "record",
        run: targets::record,
        seeds: record,
        mutations: 30,
    },
];

/// `OBSERVER_FUZZ_SEED` gives other mutations, `OBSERVER_FUZZ_TIMES` as many times more.
#[test]
fn mutations_of_good_input_are_survived() {
    let number = |name: &str| Some(std::env::var(name).ok()?.parse::<u64>().expect("a number"));
    let from = number("OBSERVER_FUZZ_SEED").unwrap_or(1);
    let times = number("OBSERVER_FUZZ_TIMES").unwrap_or(1) as usize;
    for target in &TARGETS {
        let seeds = (target.seeds)();
        let mut rng = Rng::with_seed(from);
        let began = cpu_ms();
        for seed in &seeds {
            survives(target, seed);
        }
        for _ in 0..target.mutations * times {
            survives(target, &mutation(&seeds, &mut rng));
        }
        let (count, spent) = (seeds.len() + target.mutations * times, cpu_ms() - began);
        eprintln!("{}: {count} executions in {spent} ms of CPU", target.name);
    }
}

fn cpu_ms() -> u64 {
    observer::kernel::clock::own_cpu_ns() / 1_000_000
}

/// What it died of is kept as a file, to be looked at and to become a test.
fn survives(target: &Target, input: &[u8]) {
    if catch_unwind(AssertUnwindSafe(|| (target.run)(input))).is_err() {
        let path = std::env::temp_dir().join(format!("observer-fuzz-{}.bin", target.name));
        fs::write(&path, input).expect("written");
        panic!("{} does not survive {}", target.name, path.display());
    }
}

/// Where `OBSERVER_FUZZ_CORPUS` names a directory the seeds are written into it, for libFuzzer.
#[test]
fn seeds_are_good_input() {
    let corpus = std::env::var_os("OBSERVER_FUZZ_CORPUS").map(PathBuf::from);
    for target in &TARGETS {
        let seeds = (target.seeds)();
        assert!(!seeds.is_empty());
        let Some(dir) = corpus.as_ref().map(|corpus| corpus.join(target.name)) else {
            continue;
        };
        fs::create_dir_all(&dir).expect("a directory");
        for (number, seed) in seeds.iter().enumerate() {
            fs::write(dir.join(format!("seed-{number}")), seed).expect("written");
        }
    }
}

/// One to four changes of a seed.
fn mutation(seeds: &[Vec<u8>], rng: &mut Rng) -> Vec<u8> {
    let mut bytes = rng.choice(seeds).expect("some").clone();
    for _ in 0..rng.usize(1..=4) {
        let at = rng.usize(0..=bytes.len());
        let end = at + rng.usize(0..=(bytes.len() - at).min(64));
        match rng.u8(0..7) {
            0 if at < bytes.len() => bytes[at] ^= 1 << rng.u8(0..8),
            1 if at < bytes.len() => {
                bytes[at] = *rng.choice(&[0, 1, 4, 127, 128, 254, 255]).expect("some");
            }
            2 => bytes.truncate(at),
            3 => drop(bytes.drain(at..end)),
            4 => {
                let part = bytes[at..end].to_vec();
                bytes.splice(at..at, part);
            }
            5 if bytes.len() >= at + 4 => {
                let word = rng.choice(&[0, 1, 0x7fff_ffff, 0x8000_0000, u32::MAX, 0xffff]);
                bytes[at..at + 4].copy_from_slice(&word.expect("some").to_le_bytes());
            }
            _ => {
                let other = rng.choice(seeds).expect("some");
                let from = rng.usize(0..=other.len());
                let to = from + rng.usize(0..=(other.len() - from).min(64));
                bytes.splice(at..end, other[from..to].iter().copied());
            }
        }
    }
    bytes
}

fn files(dir: &str, ending: &str) -> Vec<(String, Vec<u8>)> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join(dir);
    let mut files: Vec<_> = fs::read_dir(dir)
        .expect("the fixtures are there")
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|e| e == ending))
        .map(|path| {
            (
                path.file_stem()
                    .expect("a name")
                    .to_string_lossy()
                    .into_owned(),
                fs::read(&path).expect("readable"),
            )
        })
        .collect();
    files.sort();
    files
}

/// Each kernel, alone and with a module of its own.
fn btf() -> Vec<Vec<u8>> {
    let all = files("tests/fixtures/btf", "btf");
    let bases = all.iter().filter(|(name, _)| name.starts_with("vmlinux"));
    let joined = |base: &[u8], module: &[u8]| {
        let at = u16::try_from(base.len()).expect("small").to_le_bytes();
        [&at[..], base, module].concat()
    };
    bases
        .flat_map(|(name, base)| {
            let kernel = name.trim_start_matches("vmlinux");
            let modules = all
                .iter()
                .filter(move |(of, _)| of.starts_with("tcp_") && of.ends_with(kernel));
            modules
                .map(|(_, module)| &module[..])
                .chain([&[][..]])
                .map(|module| joined(base, module))
        })
        .collect()
}

fn record() -> Vec<Vec<u8>> {
    files("tests/recordings", "mcap")
        .into_iter()
        .map(|(_, bytes)| bytes)
        .collect()
}

fn texts(texts: &[&str]) -> Vec<Vec<u8>> {
    texts.iter().map(|text| text.as_bytes().to_vec()).collect()
}

fn filter() -> Vec<Vec<u8>> {
    texts(&[
        "dport = :443 and cc bbr",
        "state established exclude big ( sport != 22 or src 10.0.0.0/8 ) and not dst [2001:db8::]/32",
        "dev eth0 cgroup /user.slice pid 12 comm nginx netns blue retrans >= 1%",
        "sport le :https or dport gt 1024 and src 192.0.2.1:80",
    ])
}

fn config() -> Vec<Vec<u8>> {
    texts(&[
        "columns = [\"remote\", \"cc\", \"throughput\"]\nsort = \"retrans-rate\"\ngroup = \"none\"\nrefresh = \"250ms\"\n",
        "theme = \"dark\"\nmarkers = \"ascii\"\nmouse = false\n\n[keys]\npause = [\"Space\", \"F5\"]\nquit = [\"Ctrl-q\"]\n",
        "sort = \"rtt ascending\"\nrefresh = \"2s\"\n",
    ])
}

fn proc() -> Vec<Vec<u8>> {
    texts(&[
        "0-3,8\n",
        "socket:[4294967295]",
        "12 (a) b) S 1 12 12 0 -1 4194560 100\n",
        "1 2 3 400000\n",
        "36 35 98:0 / /sys/fs/cgroup\\040x rw,noatime shared:7 - cgroup2 cgroup rw,nsdelegate\n",
        "4096\t131072\t6291456\n",
        "pos:\t0\nprog_type:\t26\nprog_id:\t12\nrun_time_ns:\t100\nrun_cnt:\t7\nrecursion_misses:\t3\n",
        "/system.slice/docker-0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef.scope",
        "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod01234567_89ab_cdef_0123_456789abcdef.slice/cri-containerd-0123456789abcdef.scope",
        "# a\nnet.ipv4.tcp_rmem = 4096 131072 6291456\n-net/core/default_qdisc=fq\n",
    ])
}

fn import() -> Vec<Vec<u8>> {
    let mut talk = Maker::new(1000);
    talk.handshake(0, 40_000_000);
    for n in 0..4 {
        talk.data(50_000_000 + u64::from(n) * 1_000_000, n * 1000, 1000);
    }
    talk.ack(95_000_000, 1000, &[(2000, 3000)]);
    talk.data(96_000_000, 1000, 1000);
    talk.ack(140_000_000, 4000, &[]);
    let frames = |link| talk.frames(link);
    vec![
        talk.pcap(),
        pcap(&frames(Link::Ethernet), Link::Ethernet, true, 96),
        pcapng(&frames(Link::Ethernet), Link::Ethernet),
    ]
}

/// A message of netlink: header, fixed part, attributes.
fn message(kind: u16, fixed: &[u8], attributes: &[(u16, &[u8])]) -> Vec<u8> {
    let mut body = fixed.to_vec();
    for (kind, payload) in attributes {
        body.extend(
            u16::try_from(payload.len() + 4)
                .expect("short")
                .to_ne_bytes(),
        );
        body.extend(kind.to_ne_bytes());
        body.extend(*payload);
        body.resize(body.len().next_multiple_of(4), 0);
    }
    let mut bytes = u32::try_from(body.len() + 16)
        .expect("short")
        .to_ne_bytes()
        .to_vec();
    bytes.extend(kind.to_ne_bytes());
    bytes.extend([0; 10]);
    bytes.extend(body);
    bytes
}

/// Answers as this kernel gives them, and made ones of kinds that it may not have here.
fn netlink() -> Vec<Vec<u8>> {
    let words = |count: u32| (1..=count).flat_map(u32::to_ne_bytes).collect::<Vec<u8>>();
    let mut seeds = vec![
        // RTM_NEWLINK: IFLA_IFNAME, IFLA_MTU, IFLA_NUM_TX_QUEUES, IFLA_LINKINFO with IFLA_INFO_KIND.
        message(
            16,
            &words(4),
            &[
                (3, b"eth0\0"),
                (4, &words(1)),
                (31, &words(1)),
                (18, b"\x09\0\x01\0veth\0\0\0\0"),
            ],
        ),
        // RTM_NEWROUTE: RTA_OIF.
        message(24, &words(3), &[(4, &words(1))]),
        // SOCK_DIAG_BY_FAMILY: tcp_info, name, memory, cgroup, bbr, dctcp.
        message(
            20,
            &[&[2, 1, 0, 0][..], &words(17)].concat(),
            &[
                (2, &words(70)),
                (4, b"bbr\0"),
                (7, &words(9)),
                (21, &words(2)),
                (16, &words(5)),
            ],
        ),
        message(
            20,
            &[&[10, 1, 0, 0][..], &words(17)].concat(),
            &[
                (2, &words(60)),
                (4, b"dctcp\0"),
                (9, &words(4)),
                (16, &words(13)),
            ],
        ),
        message(3, &words(1), &[]),
    ];
    // RTM_NEWQDISC: TCA_KIND, TCA_OPTIONS, TCA_STATS2 with basic, queue and the qdisc's own.
    let stats = |own: u32| {
        [
            &b"\x14\0\x01\0"[..],
            &words(4),
            b"\x18\0\x03\0",
            &words(5),
            &(own as u16 * 4 + 4).to_ne_bytes(),
            &[4, 0],
            &words(own),
        ]
        .concat()
    };
    for kind in [
        "fq", "fq_codel", "fq_pie", "pie", "cake", "tbf", "htb", "netem", "prio", "sfq", "red",
        "mq", "mqprio", "codel",
    ] {
        let name = [kind.as_bytes(), b"\0"].concat();
        let options: Vec<u8> = (1..24u16)
            .flat_map(|n| [&8u16.to_ne_bytes()[..], &n.to_ne_bytes(), &words(1)].concat())
            .collect();
        seeds.push(message(
            36,
            &words(5),
            &[(1, &name), (2, &options), (7, &stats(40))],
        ));
        seeds.push(message(
            36,
            &words(5),
            &[(1, &name), (2, &words(20)), (7, &stats(12))],
        ));
    }
    let every = seeds.concat();
    seeds.push(every);
    seeds
}
