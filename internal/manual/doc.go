// Package manual writes the parts of manual pages that are also in a command's
// help, so that both come from one source.
//
//	cobra.Command ─▶ Commands, Flags, Text ─▶ man(7) ─▶ Check: does the page have it?
//
// A page in contrib/man is written by hand, except between the lines
//
//	.\" from the help: NAME
//	.\" end of NAME
//
// where the tests of the commands compare it with the help, or write it (go test
// ./cmd/... -run TestManual -update). A test compares the messages that a page explains in
// DIAGNOSTICS with the sources. The package must not depend on what a command
// does.
package manual
