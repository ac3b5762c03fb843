package probe

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// openMeetings makes probes of several hosts in one directory.
func openMeetings(t *testing.T, n int) (list []*meeting) {
	t.Helper()
	dir := t.TempDir()
	for i := range n {
		m, err := openMeeting(dir, fmt.Sprintf("host%d", i), false)
		require.NoError(t, err)
		m.mu.Lock()
		m.hello.Boot = m.hello.Host // as if they did not use the same mount
		m.mu.Unlock()
		list = append(list, m)
	}
	return list
}

// TestMeetThree checks that of three probes at most two meet, and that these have chosen each other,
// whatever the order of their steps. The others are rejected, or wait for a host until the end.
func TestMeetThree(t *testing.T) {
	for i := range 20 {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			list := openMeetings(t, 3)
			errs := make([]error, len(list))
			var all sync.WaitGroup
			for j, m := range list {
				all.Go(func() {
					time.Sleep(time.Duration(i*j*70) * time.Millisecond)
					errs[j] = m.meet(ctx)
				})
			}
			all.Wait()
			met := map[string]string{}
			for j, m := range list {
				m.close(false)
				if errs[j] == nil {
					met[m.hello.ID] = m.peer.ID
					continue
				}
				if !errors.Is(errs[j], context.DeadlineExceeded) {
					assert.ErrorContains(t, errs[j], "more than two probes run in")
				}
			}
			for id, peer := range met {
				assert.Equal(t, id, met[peer])
			}
		})
	}
}

// TestPeerEnds checks that a probe receives the last message of one that has ended, and does not
// wait for another.
func TestPeerEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		list := openMeetings(t, 2)
		stays, ends := list[0], list[1]
		defer stays.close(false)
		var both sync.WaitGroup
		for _, m := range list {
			both.Go(func() { assert.NoError(t, m.meet(t.Context())) })
		}
		both.Wait()
		require.NoError(t, ends.tell(message{Word: "last"}))
		var got message
		require.NoError(t, stays.hear(t.Context(), &got, peerLimit))
		assert.Equal(t, "last", got.Word)

		ends.close(false)
		began := time.Now()
		assert.ErrorContains(t, stays.hear(t.Context(), &got, peerLimit), "host1 has ended")
		assert.Less(t, time.Since(began), time.Second)
	})
}
