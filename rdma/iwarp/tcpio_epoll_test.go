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
		linkPoller.mu.Lock()
		defer linkPoller.mu.Unlock()
		return linkPoller.epoll == nil
	}, testTimeout, time.Millisecond, "connections of earlier tests")
	was := newFile
	defer func() { newFile = was }()
	newFile = func(fd uintptr, name string) *os.File {
		require.NoError(t, unix.SetNonblock(int(fd), false)) // which the poller does not take
		return was(fd, name)
	}
	_, err := newEpoll()
	require.ErrorIs(t, err, os.ErrNoDeadline)

	e, p := connectRaw(t, rawOptions{initiator: true, recvs: 1})
	assert.Nil(t, e.sock.tcp)
	assert.Nil(t, linkPoller.epoll)
	p.sendSegments(sendSeg(true, 1, 0, []byte("short")))
	assert.Equal(t, "short", string(e.inbox.nextMessage(t)))
}
