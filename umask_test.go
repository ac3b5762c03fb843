package nfsrdma

import "golang.org/x/sys/unix"

// Tests create files and directories that other users must access, with any umask.
func init() { unix.Umask(0o022) }
