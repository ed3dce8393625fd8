//! observer: a live TCP flow observer for Linux.
