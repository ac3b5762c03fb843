package realm

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
		fs := &rootFS{gate: make(chan struct{})}
		s := newRealm(t, fs)
		a := newCrowd(s, peerOf(1))
		b := a.another()
		a.call()
		synctest.Wait()
		s.permits.taken.Add(maxWorking) // used by others
		b.call()
		time.Sleep(4 * stuckTime)
		synctest.Wait()
		assert.Equal(t, map[error]int{Later: 1}, b.answered)
		s.permits.taken.Add(-maxWorking)
		close(fs.gate)
		a.waiting.Wait()
		b.waiting.Wait()
		assert.Equal(t, map[error]int{nil: 1}, a.answered)
	})
}
