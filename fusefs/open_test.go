package fusefs

import (
	"testing"

	"github.com/hanwen/go-fuse/v2/fuse"
	"github.com/stretchr/testify/assert"
	"golang.org/x/sys/unix"
)

// TestOpenedAs checks that close waits for a file that may have been written.
func TestOpenedAs(t *testing.T) {
	assert.EqualValues(t, fuse.FOPEN_NOFLUSH, openedAs(unix.O_RDONLY))
	assert.EqualValues(t, fuse.FOPEN_NOFLUSH, openedAs(fmodeExec))
	assert.Zero(t, openedAs(unix.O_WRONLY))
	assert.Zero(t, openedAs(unix.O_RDWR|unix.O_APPEND))
	assert.Zero(t, openedAs(unix.O_RDWR|unix.O_DIRECT)&fuse.FOPEN_NOFLUSH)
	assert.NotZero(t, openedAs(unix.O_DIRECT)&fuse.FOPEN_DIRECT_IO)
}
