package exportset

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
)

// TestLogFault checks that each fault of a file system leaves one line in a minute, which counts the
// calls, and that other errors leave none.
func TestLogFault(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		s := newTestSet(t, &fakeRootFS{}, func(c *Config) { c.Log = slog.New(slog.NewTextHandler(&log, nil)) })
		fail := func(err error, calls int) string {
			log.Reset()
			var q Request
			q.Begin(s, peerAt(1), &rpcmsg.Cred{Flavor: rpcmsg.AuthSys}, new(oncrpc.Reply))
			defer q.End()
			q.LogFault(err) // before the handle
			e := s.Snapshot().List()[0]
			assert.NoError(t, q.EnterExport(e.ID))
			for range calls {
				q.LogFault(err)
			}
			return log.String()
		}
		full := fmt.Errorf("write: %w", &os.PathError{Op: "write", Path: "/x", Err: syscall.ENOSPC})
		assert.Regexp(t, `^\S+ level=ERROR msg="calls fail because of an export's file system" export=/x err="no space left on device" calls=1 remedy="free some space there"\n$`, fail(full, 100))
		assert.Empty(t, fail(full, 1))
		assert.Contains(t, fail(syscall.EIO, 1), "kernel log", "another fault")
		time.Sleep(faultInterval)
		assert.Contains(t, fail(full, 1), "calls=101", "99, 1 and this one")
		for _, other := range []error{nil, syscall.ENOENT, syscall.EACCES, ReadOnly, Later} {
			assert.Empty(t, fail(other, 1), other)
		}
	})
}
