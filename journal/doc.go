// Package journal keeps records on stable storage: a file that grows at its end,
// and is replaced as a whole now and then.
//
//	header: text │ space │ salt and CRC32C of salt and text, in hexadecimal digits │ newline
//	unit:   salt │ length of the body │ CRC32C of salt, length and body │ body
//	body:   record, record, ...: length of the record │ its bytes
//
// Lengths and checksums are 32-bit and big-endian. A unit has the records of all
// Appends that waited at the same time (group commit): one write, one sync.
//
// # Crashes
//
// A unit is on stable storage before the next unit is written. A crash can thus
// damage the last unit only, of which no Append has returned: Open cuts that unit
// off. Damage in front of a readable unit, or of more bytes than a unit has, has
// another cause, such as a disk that loses data. Records are gone then, and nobody
// knows which: the journal is void. The salt, 64 random bits that no client
// knows, keeps a record from looking like a unit.
//
// # Errors
//
// After an error of write or sync nobody knows the end of the file. Every further
// Append fails, until Replace has written a new file. The next process does not
// know of the error: Open writes the last unit again and syncs the file, before
// anything comes behind that unit.
//
// The package must not know the meaning of a record.
package journal
