// Package standby decides which of several hosts serves from a state directory that they share. It
// needs nothing but that directory: its lock, and a file in which the serving host shows that it is
// alive.
//
//	waiting host:  Wait ─Read─▶ silent? ─▶ fence ─▶ lock ─▶ read again ─▶ write ─▶ read ─▶ Host
//	serving host:  Host ─write every T/5─▶ beat;  each success extends the tenure
//
// # Time
//
// The serving host may serve until T - T/10 after it began to write the last beat that is on stable
// storage. A waiting host takes over when the beat has not changed for T: from the end of the first
// read that returned it to the start of the last one. The beat was sent before that end, and a later
// one that had extended the tenure would have been seen by the last read. Both measure with
// CLOCK_BOOTTIME; no two clocks are compared.
//
// # The lock
//
// The lock of the directory is necessary and not sufficient: file systems give it up before or after
// the host that held it has noticed. Whether the file system then still accepts that host's writes
// is for the caller to know (fence).
package standby
