package fusefs

import (
	"fmt"
	"os"
	"testing"

	"github.com/hanwen/go-fuse/v2/fuse"
	"github.com/stretchr/testify/assert"
	"golang.org/x/sys/unix"
)

// TestExcludes checks which system calls may create a name exclusively: all that
// are not known to do something else.
func TestExcludes(t *testing.T) {
	for _, tt := range []struct {
		line string
		may  bool
	}{
		{fmt.Sprintf("%d 0xffffff9c 0x1 0x2 0x100 0x0 0x0 0x3 0x4\n", unix.SYS_NEWFSTATAT), false},
		{fmt.Sprintf("%d 0xffffff9c 0x1 %#x 0x1a4 0x0 0x0 0x3 0x4\n", unix.SYS_OPENAT, unix.O_CREAT|unix.O_WRONLY), false},
		{fmt.Sprintf("%d 0xffffff9c 0x1 %#x 0x1a4 0x0 0x0 0x3 0x4\n", unix.SYS_OPENAT, unix.O_CREAT|unix.O_EXCL), true},
		{fmt.Sprintf("%d 0xffffff9c 0x1", unix.SYS_OPENAT), true},
		{fmt.Sprintf("%d 0xffffff9c 0x1 ? 0x0\n", unix.SYS_OPENAT), true},
		{fmt.Sprintf("%d 0xffffff9c 0x1 0x1ff 0x0 0x0 0x0 0x3 0x4\n", unix.SYS_MKDIRAT), true},
		{fmt.Sprintf("%d 0xffffff9c 0x1 0x1ff 0x0 0x0 0x0 0x3 0x4\n", unix.SYS_OPENAT2), true},
		{"-1 0x7fff 0x5\n", true}, // in no system call
		{"running\n", true},
		{"x", true},
		{"", true},
	} {
		assert.Equal(t, tt.may, createsExclusively([]byte(tt.line)), tt.line)
	}
	for _, pid := range []int{0, 1 << 30, os.Getpid()} { // in another namespace; exited; in this system call
		o := op{from: fuse.Caller{Pid: uint32(pid)}}
		assert.True(t, o.mayCreateExclusively(), pid)
	}
}
