package main

import "golang.org/x/sys/unix"

// Tests create files and directories that other users must access, whatever umask the tests
// run with.
func init() { unix.Umask(0o022) }
