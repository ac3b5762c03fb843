package exportset

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
)

// TestPatienceWithFew checks that a call does not wait forever for a permit if
// its file system has few: other file systems may have the rest.
func TestPatienceWithFew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := &fakeRootFS{gate: make(chan struct{})}
		s := newTestSet(t, fs)
		a := newCallGroup(s, peerAt(1))
		b := a.fromOtherHost()
		a.startCall()
		synctest.Wait()
		s.permits.taken.Add(maxPermits) // used by others
		b.startCall()
		time.Sleep(4 * stuckTime)
		synctest.Wait()
		assert.Equal(t, map[error]int{Later: 1}, b.answered)
		s.permits.taken.Add(-maxPermits)
		close(fs.gate)
		a.waiting.Wait()
		b.waiting.Wait()
		assert.Equal(t, map[error]int{nil: 1}, a.answered)
	})
}
