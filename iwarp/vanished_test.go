package iwarp

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"golang.org/x/sys/unix"
)

// TestMachineWatched checks that at both ends the kernel detects a vanished
// peer machine (internal/keepalive), both while bytes are unacknowledged and
// while the connection is idle.
func TestMachineWatched(t *testing.T) {
	world(t)
	a, b := pair(t, options{})
	for _, e := range []endpoint{a, b} {
		e.sock.tcp.control(func(fd int) {
			for _, o := range []struct{ level, name, want int }{
				{unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(time.Minute / time.Millisecond)},
				{unix.SOL_SOCKET, unix.SO_KEEPALIVE, 1},
				{unix.IPPROTO_TCP, unix.TCP_KEEPIDLE, 15},
				{unix.IPPROTO_TCP, unix.TCP_KEEPINTVL, 15},
			} {
				got, err := unix.GetsockoptInt(fd, o.level, o.name)
				assert.NoError(t, err)
				assert.Equal(t, o.want, got, o.name)
			}
		})
	}
}
