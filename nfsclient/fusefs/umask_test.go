package fusefs

import "golang.org/x/sys/unix"

// Tests make files and directories that other users must reach, whatever umask the tests
// are run with.
func init() { unix.Umask(0o022) }
