package cli

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

// UntilSignal returns a context that SIGINT or SIGTERM ends, and whose cause says
// which. A second one then
// has its usual effect: it ends the process, which waits for nothing any more.
func UntilSignal() context.Context {
	ctx, end := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 2) // the second may come before the first is taken
	signal.Notify(signals, unix.SIGINT, unix.SIGTERM)
	go func() {
		first := <-signals
		signal.Stop(signals) // before anybody hears of the first
		end(fmt.Errorf("%v signal received", first))
		select {
		case second := <-signals:
			_ = unix.Kill(unix.Getpid(), second.(syscall.Signal))
		default:
		}
	}()
	return ctx
}
