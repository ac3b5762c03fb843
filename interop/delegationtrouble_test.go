//go:build interop

package interop

import (
	"math/rand/v2"
	"sync"
	"syscall"
	"time"
)

// A disturbance is a disturbance of working mounts.
type disturbance struct {
	cuts  bool // their connections are reset
	stops bool // stopped, mostly for more than a lease
}

var troubles = []disturbance{{true, true}, {}, {cuts: true}, {stops: true}}

const troubleEvery = 400 * time.Millisecond // at most

// startDisturbance makes trouble until the returned function is called.
func (k disturbance) startDisturbance(e *delegationSetup, seed uint64) (end func()) {
	if k == (disturbance{}) {
		return func() {}
	}
	stop := make(chan struct{})
	wait := func(d time.Duration) bool {
		select {
		case <-stop:
			return false
		case <-time.After(d):
			return true
		}
	}
	var work sync.WaitGroup
	work.Go(func() {
		r := rand.New(rand.NewPCG(seed, 6))
		for wait(time.Duration(r.Int64N(int64(troubleEvery)))) {
			i := r.IntN(len(e.fuse))
			if k.cuts && (!k.stops || r.IntN(2) == 0) {
				e.relays[i].resetAll()
				continue
			}
			e.fuse[i].proc.Stop()
			wait(time.Duration(float64(delegationLease) * (0.5 + r.Float64())))
			e.fuse[i].proc.Signal(syscall.SIGCONT)
		}
	})
	return func() {
		close(stop)
		work.Wait()
	}
}
