package rpcrdma

import "time"

// slowness tells how many times longer this processor takes than a usual one to run
// one goroutine after another, which is what counts where a call is handed over. It
// is the least of some attempts, as others may want the processor too.
func slowness() int {
	to, from := make(chan struct{}), make(chan struct{})
	go func() {
		for range to {
			from <- struct{}{}
		}
	}()
	least := maxSlowness * quickSwitch
	for range 32 {
		start := time.Now()
		to <- struct{}{}
		<-from
		least = min(least, time.Since(start))
	}
	close(to)
	return max(1, int(least/quickSwitch))
}
