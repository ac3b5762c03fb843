package iwarp

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestGateUnpolled checks that connections do without workers, whose waits would
// spin, if the runtime's poller does not take the gate.
func TestGateUnpolled(t *testing.T) {
	require.Eventually(t, func() bool {
		idle.mu.Lock()
		defer idle.mu.Unlock()
		return idle.epoll == nil
	}, patience, time.Millisecond, "connections of earlier tests")
	was := newFile
	defer func() { newFile = was }()
	newFile = func(fd uintptr, name string) *os.File {
		require.NoError(t, unix.SetNonblock(int(fd), false)) // which the poller does not take
		return was(fd, name)
	}
	_, err := newEpoll()
	require.ErrorIs(t, err, os.ErrNoDeadline)

	e, p := againstRaw(t, raw{initiator: true, recvs: 1})
	assert.Nil(t, e.sock.tcp)
	assert.Nil(t, idle.epoll)
	p.send(sendSeg(true, 1, 0, []byte("short")))
	assert.Equal(t, "short", string(e.in.next(t)))
}
