package keepalive

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
)

// TestMeter checks that a question which the kernel does not answer holds up the first
// who ask for a moment, the later not at all, and that one goroutine waits.
func TestMeter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var m Meter
		var asked atomic.Int64
		ask := func(in, out uint64, disk <-chan struct{}) (uint64, uint64, bool) {
			return m.Ask(func() (uint64, uint64) {
				asked.Add(1)
				if disk != nil {
					<-disk
				}
				return in, out
			})
		}
		in, out, ok := ask(1, 2, nil)
		assert.Equal(t, []any{uint64(1), uint64(2), true}, []any{in, out, ok})
		disk := make(chan struct{})
		start := time.Now()
		for range 3 {
			in, out, ok = ask(3, 4, disk)
			assert.Equal(t, []any{uint64(1), uint64(2), false}, []any{in, out, ok}, "as last known")
			assert.Equal(t, answerTime, time.Since(start))
		}
		assert.EqualValues(t, 2, asked.Load())
		close(disk)
		synctest.Wait()
		in, out, ok = ask(5, 6, nil)
		assert.Equal(t, []any{uint64(5), uint64(6), true}, []any{in, out, ok})
	})
}

// TestMeterShared checks that whoever asks while another waits for the same answer gets it.
func TestMeterShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var m Meter
		slow := func() (uint64, uint64) {
			time.Sleep(answerTime / 2)
			return 7, 8
		}
		for range 4 {
			go func() {
				in, out, ok := m.Ask(slow)
				assert.Equal(t, []any{uint64(7), uint64(8), true}, []any{in, out, ok})
			}()
		}
		time.Sleep(answerTime)
	})
}
