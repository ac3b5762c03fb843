package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestPingpong runs this program's client and server against each other, at two
// loopback addresses, each with its own port 4791.
func TestPingpong(t *testing.T) {
	for _, args := range [][]string{
		{"--service=uc", "-s", "1", "-n", "10", "-c"},
		{"--service=uc", "-s", "64KiB", "-n", "50", "-c"},
		{"--service=uc", "-s", "65537", "-m", "4096", "-n", "10", "--json"},
		{"--service=ud", "-s", "0", "-n", "10"},
		{"--service=ud", "-s", "4096", "-n", "50", "-c"},
	} {
		t.Run(strings.Join(args, " "), func(t *testing.T) {
			server, client := runPingpongPair(t, args, args)
			require.Zero(t, server.status, server.errs.String())
			require.Zero(t, client.status, client.errs.String())
			want := "messages of"
			if strings.Contains(strings.Join(args, " "), "--json") {
				want = `"service":"uc"`
			}
			assert.Contains(t, client.out, want)
		})
	}
}

// TestPingpongErrors checks that the end that notices an error reports it.
func TestPingpongErrors(t *testing.T) {
	_, client := runPingpongPair(t, []string{"-n", "1"}, []string{"-n", "2", "--timeout=200ms"})
	assert.Equal(t, 1, client.status)
	assert.Contains(t, client.errs.String(), "message 1: no message for 200ms")
	server, _ := runPingpongPair(t, []string{"-n", "1", "-s", "9"}, []string{"-n", "1", "-s", "8", "--timeout=200ms"})
	assert.Equal(t, 1, server.status)
	assert.Contains(t, server.errs.String(), "message 0 has 8 bytes, not 9")

	for _, args := range [][]string{
		{"a", "b"}, {"--service=rc"}, {"--iters=0"}, {"--port=70000"}, {"-s", "17MiB"},
	} {
		var out, errs bytes.Buffer
		assert.Equal(t, 2, run(t.Context(), append([]string{"pingpong"}, args...), &out, &errs), "%q", args)
	}
}

// A pingpongRun is the result of one run.
type pingpongRun struct {
	status int
	out    string
	errs   bytes.Buffer
}

// runPingpongPair runs a server and a client against each other.
func runPingpongPair(t *testing.T, serverArgs, clientArgs []string) (server, client *pingpongRun) {
	server, client = new(pingpongRun), new(pingpongRun)
	addr, from := pingpongAddr(), pingpongAddr()
	var text []string // a server without --json prints a line when it is ready
	for _, arg := range serverArgs {
		if arg != "--json" {
			text = append(text, arg)
		}
	}
	said, out := io.Pipe()
	ended := make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		defer close(ended)
		server.status = run(ctx, append([]string{"pingpong", "--local", addr, "-p", "0"}, text...), out, &server.errs)
		out.Close()
	}()
	lines := bufio.NewReader(said)
	ready, err := lines.ReadString('\n')
	require.NoError(t, err)
	port := ready[strings.LastIndexByte(ready, ':')+1 : len(ready)-1]
	go io.Copy(io.Discard, lines)
	var stdout bytes.Buffer
	client.status = run(t.Context(), append([]string{"pingpong", "--local", from, "-p", port, addr}, clientArgs...), &stdout, &client.errs)
	client.out = stdout.String()
	if client.status != 0 {
		cancel()
	}
	<-ended
	return server, client
}

// pingpongAddr returns a random loopback address, whose port 4791 is probably
// free.
func pingpongAddr() string {
	return fmt.Sprintf("127.%d.%d.%d", 1+rand.N(250), rand.N(250), 1+rand.N(250))
}
