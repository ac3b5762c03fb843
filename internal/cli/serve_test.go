package cli

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
)

// A fakeEndpoint serves until it is shut down or told to fail.
type fakeEndpoint struct {
	fail, stop chan struct{}
	err        error
	shut       int
}

func (f *fakeEndpoint) endpoint(name string) Endpoint {
	return Endpoint{
		Name: name, Addr: &net.TCPAddr{Port: 2049},
		Serve: func() error {
			select {
			case <-f.fail:
				return f.err
			case <-f.stop:
				return nil
			}
		},
		Shutdown: func(context.Context) error {
			f.shut++
			close(f.stop)
			return nil
		},
	}
}

func newFakeEndpoint(err error) *fakeEndpoint {
	return &fakeEndpoint{fail: make(chan struct{}), stop: make(chan struct{}), err: err}
}

// TestServeAll checks that a failed endpoint does not stop the others, and that its error
// is returned at the end.
func TestServeAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := errors.New("broken")
		rdma, tcp := newFakeEndpoint(broken), newFakeEndpoint(errors.New("also"))
		var out, log strings.Builder
		ctx, stop := context.WithCancel(t.Context())
		type result struct {
			idle bool
			err  error
		}
		done := make(chan result, 1)
		serve := func() {
			idle, err := ServeAll(ctx, []Endpoint{rdma.endpoint("rdma"), tcp.endpoint("tcp")}, "ready\n", &out, slog.New(slog.NewTextHandler(&log, nil)))
			done <- result{idle, err}
		}
		go serve()
		close(rdma.fail)
		synctest.Wait()
		assert.Empty(t, done, "TCP continues")
		assert.Zero(t, tcp.shut)
		assert.Contains(t, log.String(), "rdma on :2049: broken")
		assert.Equal(t, "ready\n", out.String())
		stop()
		r := <-done
		assert.True(t, r.idle)
		assert.ErrorIs(t, r.err, broken)
		assert.Equal(t, 1, rdma.shut, "calls of its connections are drained too")
		assert.Equal(t, 1, tcp.shut)

		rdma, tcp = newFakeEndpoint(broken), newFakeEndpoint(errors.New("also"))
		ctx = t.Context()
		go serve()
		close(rdma.fail)
		close(tcp.fail)
		r = <-done
		assert.ErrorIs(t, r.err, broken)
		assert.ErrorIs(t, r.err, tcp.err)

		rdma, tcp = newFakeEndpoint(nil), newFakeEndpoint(nil)
		ctx, stop = context.WithCancel(t.Context())
		go serve()
		synctest.Wait()
		stop()
		r = <-done
		assert.NoError(t, r.err)
		assert.True(t, r.idle)
	})
}
