package keepalive

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
)

// TestMeter checks that a query that the kernel does not answer delays the first
// callers for a moment, later ones not at all, and that only one goroutine waits.
func TestMeter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var m Meter
		var asked atomic.Int64
		ask := func(s State, disk <-chan struct{}) (State, bool) {
			return m.Ask(func() State {
				asked.Add(1)
				if disk != nil {
					<-disk
				}
				return s
			})
		}
		s, ok := ask(State{1, 2, false}, nil)
		assert.Equal(t, []any{State{1, 2, false}, true}, []any{s, ok})
		disk := make(chan struct{})
		start := time.Now()
		for range 3 {
			s, ok = ask(State{3, 4, true}, disk)
			assert.Equal(t, []any{State{1, 2, false}, false}, []any{s, ok}, "as last known")
			assert.Equal(t, answerTime, time.Since(start))
		}
		assert.EqualValues(t, 2, asked.Load())
		close(disk)
		synctest.Wait()
		s, ok = ask(State{5, 6, true}, nil)
		assert.Equal(t, []any{State{5, 6, true}, true}, []any{s, ok})
	})
}

// TestMeterShared checks that a caller that asks while another waits gets the same
// answer.
func TestMeterShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var m Meter
		slow := func() State {
			time.Sleep(answerTime / 2)
			return State{In: 7, Out: 8}
		}
		for range 4 {
			go func() {
				s, ok := m.Ask(slow)
				assert.Equal(t, []any{State{In: 7, Out: 8}, true}, []any{s, ok})
			}()
		}
		time.Sleep(answerTime)
	})
}
