package main

import (
	"bufio"
	"fmt"
	"io"
	"log/slog"
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
	held, release := make(chan struct{}, maxMonitor), make(chan struct{})
	next := new(operations).monitor()
	m := newMonitor(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/held" {
			held <- struct{}{}
			<-release
			return
		}
		next.ServeHTTP(w, r)
	}), slog.New(slog.DiscardHandler)).serve(l)
	defer m.close()
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
	for range maxMonitor {
		quiet = append(quiet, dial())
	}
	require.NoError(t, scrape())
	_, err = quiet[0].Read(make([]byte, 1))
	require.Error(t, err)
	assert.NotErrorIs(t, err, os.ErrDeadlineExceeded, "the one that has waited longest is closed")

	for range maxMonitor {
		ask(dial(), "/held")
		<-held
	}
	assert.Error(t, scrape(), "no room")
	close(release)
	require.Eventually(t, func() bool { return scrape() == nil }, 20*time.Second, 10*time.Millisecond)
}

// TestMonitorTimeouts checks that no client can hold a connection by not reading.
func TestMonitorTimeouts(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ended := make(chan error, 1)
	m := newMonitor(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		b := make([]byte, 1<<20)
		for {
			if _, err := w.Write(b); err != nil {
				ended <- err
				return
			}
		}
	}), slog.New(slog.DiscardHandler))
	assert.Positive(t, m.server.WriteTimeout)
	m.server.WriteTimeout = 50 * time.Millisecond
	m.serve(l)
	defer m.close()
	c, err := net.Dial("tcp", l.Addr().String())
	require.NoError(t, err)
	defer c.Close()
	fmt.Fprint(c, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n") // and reads nothing
	assert.ErrorIs(t, <-ended, os.ErrDeadlineExceeded)
}

// TestMonitorProfiles asks for profiles that take a day on all connections: after a
// while they keep no scraper out.
func TestMonitorProfiles(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	m := newMonitor(new(operations).monitor(), slog.New(slog.DiscardHandler))
	bound := newConnBound(2, 50*time.Millisecond)
	m.server.ConnState = bound.changed
	m.serve(l)
	defer m.close()
	url := "http://" + l.Addr().String()
	var profiles []net.Conn
	for range 2 {
		c, err := net.Dial("tcp", l.Addr().String())
		require.NoError(t, err)
		defer c.Close()
		require.NoError(t, c.SetDeadline(time.Now().Add(20*time.Second)))
		fmt.Fprint(c, "GET /debug/pprof/heap?seconds=86400 HTTP/1.1\r\nHost: localhost\r\n\r\n")
		profiles = append(profiles, c)
		require.Eventually(t, func() bool {
			bound.mu.Lock()
			defer bound.mu.Unlock()
			return len(bound.asked) == len(profiles)
		}, 20*time.Second, time.Millisecond)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	require.Eventually(t, func() bool {
		answer, err := client.Get(url + "/healthz")
		return err == nil && answer.Body.Close() == nil
	}, 10*time.Second, 10*time.Millisecond)
	_, err = profiles[0].Read(make([]byte, 1))
	require.Error(t, err)
	assert.NotErrorIs(t, err, os.ErrDeadlineExceeded, "the oldest is closed")
}
