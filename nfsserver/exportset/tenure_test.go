package exportset

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/internal/tenure"
)

// TestTenure checks that no call uses a file system after the end of a tenure, even if it has begun to
// wait for a permit before.
func TestTenure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		word := tenure.Now() + int64(time.Hour)
		held := tenure.New(&word)
		s := newTestSet(t, &fakeRootFS{}, func(c *Config) { c.Tenure = held })
		e := s.Snapshot().List()[0]
		ran := 0
		use := func() error { return s.RunWithPermit(t.Context(), peerAt(1), e, func() { ran++ }) }
		require.NoError(t, use())

		w := s.permits.counterFor(&e.source.work, peerAt(1))
		taken := 0
		for s.permits.tryPermit(&e.source.work, w) {
			taken++
		}
		late := make(chan error)
		go func() { late <- use() }()
		synctest.Wait()
		held.End()
		for range taken {
			s.permits.releasePermit(&e.source.work, w)
		}
		assert.Equal(t, Later, <-late)
		assert.Equal(t, Later, use())
		assert.Equal(t, 1, ran)
		assert.Zero(t, s.permits.taken.Load())
	})
}
