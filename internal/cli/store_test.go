package cli

import (
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestNotifyStuckManager checks that a service manager that takes no notifications keeps the program
// waiting only for a time, and that it gets the next ones when it continues.
func TestNotifyStuckManager(t *testing.T) {
	name := filepath.Join(t.TempDir(), "notify")
	manager, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: name, Net: "unixgram"})
	require.NoError(t, err)
	defer manager.Close()
	t.Setenv("NOTIFY_SOCKET", name)
	const timeout = 20 * time.Millisecond
	queued := 0
	for ; err == nil; queued++ {
		require.Less(t, queued, 1<<16, "the queue has no end")
		_, err = sendToManager(timeout, "WATCHDOG=1")
	}
	assert.ErrorIs(t, err, os.ErrDeadlineExceeded)
	b := make([]byte, 100)
	for range queued - 1 {
		_, err = manager.Read(b)
		require.NoError(t, err)
	}
	require.NoError(t, NotifyManager("STOPPING=1", "STATUS=bye"))
	n, err := manager.Read(b)
	require.NoError(t, err)
	assert.Equal(t, "STOPPING=1\nSTATUS=bye", string(b[:n]))
}
