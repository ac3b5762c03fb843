// Package journal keeps records on stable storage: a file that grows at its end,
// and is replaced as a whole from time to time.
//
//	header: text │ space │ salt and CRC32C of salt and text, in hexadecimal digits │ newline
//	unit:   salt │ length of the body │ CRC32C of salt, length and body │ body
//	body:   record, record, ...: length of the record │ its bytes
//
// Lengths and checksums are 32-bit and big-endian. A unit contains the records from all
// Appends that waited at the same time (group commit): one write, one sync.
//
// # Crashes
//
// A unit is on stable storage before the next unit is written. A crash can thus
// damage only the last unit, whose Appends have not returned: Open truncates that unit.
// Damage before a readable unit, or to more bytes than a unit has, has
// another cause, such as a disk that loses data. Records are lost then, and it is
// unknown which: the journal is void, until the caller has replaced it. The salt, 64 random bits that no client
// knows, keeps a record from looking like a unit.
//
// # Errors
//
// After a write or sync error, the end of the file is unknown. Every further
// Append fails, until Replace has written a new file. The next process does not
// know about the error: Open writes the last unit again and syncs the file, before
// anything is appended to that unit.
//
// The package must not depend on the meaning of a record.
package journal
