//! Rules as tables.
