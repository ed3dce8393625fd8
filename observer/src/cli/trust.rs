//! `doctor`, `serve`, `completions` and `man`: what may be said.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::positive_duration;

#[derive(Debug, Args)]
pub struct DoctorArgs {
    /// One JSON object per line instead of text
    #[arg(long)]
    pub json: bool,
    /// Judge the way to this host: opens three connections there (port 443 unless said otherwise), sends nothing over them
    #[arg(long, value_name = "HOST[:PORT]")]
    pub target: Option<String>,
    /// Watch the running flows for so long
    #[arg(short = 't', long = "time", value_name = "SECS", default_value = "3", value_parser = positive_duration)]
    pub time: Duration,
}

#[derive(Debug, Args)]
pub struct ServeArgs {
    /// Where to listen; port 0 takes a free one
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:9464")]
    pub listen: SocketAddr,
    /// Count flows by the network of their peer too (/24, /48): a label peer_prefix, of the first hundred networks; the
    /// rest are `other`
    #[arg(long)]
    pub peer_prefix: bool,
}

#[derive(Debug, Args)]
pub struct CompletionsArgs {
    /// bash, elvish, fish, powershell or zsh
    pub shell: clap_complete::Shell,
}

#[derive(Debug, Args)]
pub struct ManArgs {
    /// A directory for a page a command, instead of the program's page on standard output
    #[arg(short, long, value_name = "DIR")]
    pub output: Option<PathBuf>,
    /// Overwrite pages that are there
    #[arg(long, requires = "output")]
    pub force: bool,
}
