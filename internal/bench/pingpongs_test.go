package main

import (
	"io"
	"net"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestLoop checks that a loop answers each message with one, and outlives a
// connection.
func TestLoop(t *testing.T) {
	ln, err := listenReno()
	require.NoError(t, err)
	defer ln.Close()
	l, err := newEchoLoop(requestSize, replySize)
	require.NoError(t, err)
	served, ended := 0, make(chan error, 1)
	const last = 4
	go func() {
		ended <- l.run(func() bool {
			served++
			return served < last
		})
	}()
	for range 2 {
		c, err := net.Dial("tcp", ln.Addr().String())
		require.NoError(t, err)
		s, err := ln.Accept()
		require.NoError(t, err)
		require.NoError(t, l.add(s, false))
		for range last / 2 {
			_, err = c.Write(make([]byte, requestSize))
			require.NoError(t, err)
			_, err = io.ReadFull(c, make([]byte, replySize))
			require.NoError(t, err)
		}
		require.NoError(t, c.Close())
	}
	require.NoError(t, <-ended)
	assert.Equal(t, last, served)
}
