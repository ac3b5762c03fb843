// Package posix is a suite of small functions over a directory, each about one
// requirement of POSIX or Linux on file systems. A function does not judge: it
// records its observations as words and numbers that can be compared between
// any two file systems (names of errors, modes, sizes, which times changed; no
// inode numbers and no times).
//
//	Run(tmpfs)  ──▶ transcript ┐
//	Run(mount)  ──▶ transcript ┴─▶ Compare ──▶ deviations of the mount from tmpfs
//
// Legitimate deviations of a file system are listed as Differences: the
// function, the lines of the reference and the lines in their place. An
// unlisted difference is a fault, and so is a listed difference that does not
// occur.
//
// The functions must not know the file system, server or transport. They run
// one after the other, because some change the umask of the process.
package posix
