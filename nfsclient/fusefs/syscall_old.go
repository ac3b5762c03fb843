//go:build amd64 || s390x

package fusefs

import "golang.org/x/sys/unix"

// legacyNonExclusiveCalls holds the nonExclusiveCalls that newer architectures
// lack.
var legacyNonExclusiveCalls = map[uint64]openFlags{
	unix.SYS_OPEN: 1, unix.SYS_STAT: noFlags, unix.SYS_LSTAT: noFlags,
	unix.SYS_ACCESS: noFlags, unix.SYS_READLINK: noFlags, unix.SYS_UNLINK: noFlags, unix.SYS_RMDIR: noFlags,
	unix.SYS_CHMOD: noFlags, unix.SYS_CHOWN: noFlags, unix.SYS_LCHOWN: noFlags, unix.SYS_UTIMES: noFlags,
	unix.SYS_RENAME: noFlags, unix.SYS_RENAMEAT: noFlags,
}
