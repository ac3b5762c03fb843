package report

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestMonitorBound fills the server of --metrics with connections that ask for
// nothing, and then with requests that are not answered: a scraper gets in past the
// former, and is turned away at once by the latter, until one is done.
func TestMonitorBound(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	held, release := make(chan struct{}, maxMetricsConns), make(chan struct{})
	next := NewHandler(func() *Source { return new(Source) })
	m := NewServer(&http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/held" {
			held <- struct{}{}
			<-release
			return
		}
		next.ServeHTTP(w, r)
	})}).Start(l)
	defer m.Close()
	dial := func() net.Conn {
		c, err := net.Dial("tcp", l.Addr().String())
		require.NoError(t, err)
		t.Cleanup(func() { c.Close() })
		require.NoError(t, c.SetDeadline(time.Now().Add(20*time.Second)))
		return c
	}
	ask := func(c net.Conn, path string) { fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n", path) }
	scrape := func() error {
		c := dial()
		ask(c, "/healthz")
		answer, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err == nil {
			defer answer.Body.Close()
			assert.Equal(t, http.StatusOK, answer.StatusCode)
			_, err = io.ReadAll(answer.Body)
		}
		return err
	}

	var quiet []net.Conn
	for range maxMetricsConns {
		quiet = append(quiet, dial())
	}
	require.NoError(t, scrape())
	_, err = quiet[0].Read(make([]byte, 1))
	require.Error(t, err)
	assert.NotErrorIs(t, err, os.ErrDeadlineExceeded, "the one that has waited longest is closed")

	for range maxMetricsConns {
		ask(dial(), "/held")
		<-held
	}
	assert.Error(t, scrape(), "no connection available")
	close(release)
	require.Eventually(t, func() bool { return scrape() == nil }, 20*time.Second, 10*time.Millisecond)
}

// TestMonitorTimeouts checks that no client can hold a connection by not reading.
func TestMonitorTimeouts(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ended := make(chan error, 1)
	m := NewServer(&http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		b := make([]byte, 1<<20)
		for {
			if _, err := w.Write(b); err != nil {
				ended <- err
				return
			}
		}
	})})
	assert.Positive(t, m.server.WriteTimeout)
	m.server.WriteTimeout = 50 * time.Millisecond
	m.Start(l)
	defer m.Close()
	c, err := net.Dial("tcp", l.Addr().String())
	require.NoError(t, err)
	defer c.Close()
	fmt.Fprint(c, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n") // and reads nothing
	assert.ErrorIs(t, <-ended, os.ErrDeadlineExceeded)
}
