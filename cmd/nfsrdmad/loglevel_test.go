package main

import (
	"bytes"
	"log/slog"
	"net"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/internal/cli"
	"github.com/nfsrdma/nfsrdma/oncrpc"
)

// TestLogLevels checks which lines are logged: by level, by client, and for a time.
func TestLogLevels(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		c := newLogControl(slog.LevelInfo)
		log := slog.New(&leveledHandler{control: c, next: slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug})})
		peer := &oncrpc.Peer{Network: "tcp", Addr: netip.MustParseAddrPort("[::ffff:192.0.2.7]:700")}
		logged := func() string {
			out.Reset()
			log.Info("info")
			log.Debug("debug")
			log.Debug("peer", "peer", peer)
			log.With("client", netip.MustParseAddr("192.0.2.7")).WithGroup("g").Debug("client")
			log.Debug("other", "peer", &net.TCPAddr{IP: net.IPv4(198, 51, 100, 1), Port: 1})
			var words []string
			for line := range strings.Lines(out.String()) {
				for _, w := range strings.Fields(line) {
					if msg, ok := strings.CutPrefix(w, "msg="); ok {
						words = append(words, msg)
					}
				}
			}
			return strings.Join(words, " ")
		}
		assert.Equal(t, "info", logged())
		client := netip.MustParsePrefix("192.0.2.0/24")
		require.NoError(t, c.setLevel(client, slog.LevelDebug, time.Now().Add(time.Minute)))
		assert.Equal(t, "info peer client", logged())
		require.NoError(t, c.setLevel(netip.Prefix{}, slog.LevelDebug, time.Now().Add(time.Second)))
		assert.Equal(t, "info debug peer client other", logged())
		time.Sleep(time.Second)
		synctest.Wait()
		assert.Equal(t, "info peer client", logged(), "the level of all has ended")
		require.NoError(t, c.setLevel(netip.Prefix{}, slog.LevelError, time.Time{}))
		assert.Equal(t, "peer client", logged())
		time.Sleep(time.Minute)
		synctest.Wait()
		assert.Empty(t, logged())
		assert.False(t, log.Enabled(t.Context(), slog.LevelWarn), "lines that are not logged cost nothing")
		require.NoError(t, c.setLevel(client, slog.LevelInfo, time.Time{}))
		require.NoError(t, c.setLevel(client, slog.LevelError, time.Time{}))
		assert.Empty(t, c.describeLevels().Clients, "the level of the others ends a client's")
		for i := range maxLogClients {
			require.NoError(t, c.setLevel(netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 0, 0, byte(i)}), 32), slog.LevelDebug, time.Time{}))
		}
		assert.ErrorContains(t, c.setLevel(client, slog.LevelDebug, time.Time{}), "which is the limit")
	})
}

// TestJSONLogUnits checks that durations in the JSON log have a unit.
func TestJSONLogUnits(t *testing.T) {
	var out bytes.Buffer
	var o serveOptions
	o.logLevel.Word, o.logFormat.Word = "info", "json"
	o.newLogger(&out).With("retry", 3*time.Second).WithGroup("g").Info("stopping", "limit", 10*time.Second)
	assert.Contains(t, out.String(), `"retry":"3s","g":{"limit":"10s"}`)
}

// TestLogCommand changes and shows the level of a daemon.
func TestLogCommand(t *testing.T) {
	control := filepath.Join(t.TempDir(), "control")
	s := startDaemon(t, "--listen", "127.0.0.1:0", "--tcp", "127.0.0.1:0", "--control", control, "mem:=/x")
	run := func(args ...string) (int, string) {
		status, stdout, stderr := runCommand(t, append(append([]string{"log"}, args...), "--control", control)...)
		return status, stdout + stderr
	}
	_, out := run()
	assert.Equal(t, "all  info\n", out)
	status, out := run("debug", "--for", "1h")
	assert.Equal(t, cli.ExitOK, status)
	assert.Equal(t, "the log level is debug for 1h0m0s\n", out)
	nc, err := net.Dial("tcp", s.transportAddr(t, "tcp"))
	require.NoError(t, err)
	nc.Close()
	_, out = run("warn", "--client", "192.0.2.7")
	assert.Equal(t, "the log level for 192.0.2.7/32 is that of the others, debug\n", out)
	_, _ = run("error")
	_, out = run("warn", "--client", "::ffff:192.0.2.7")
	assert.Equal(t, "the log level for 192.0.2.7/32 is warn\n", out)
	_, out = run()
	assert.Equal(t, "all           error  until the daemon exits, then info\n192.0.2.7/32  warn   until the daemon exits\n", out)
	for want, args := range map[string][]string{
		`"loud" is no log level: the levels are debug, info, warn, error`: {"loud"},
		"--client and --for need a level":                                 {"--client", "192.0.2.7"},
		`--client: "host" is neither an address nor a network`:            {"debug", "--client", "host"},
		`--client: "" is neither an address nor a network`:                {"debug", "--client", ""},
		`--client: "192.0.2.7 192.0.2.8" is neither an address nor a`:     {"debug", "--client", "192.0.2.7 192.0.2.8"},
		"--for 1ms is not between 1s and 24h0m0s":                         {"debug", "--for", "1ms"},
		"log takes one level: debug, info, warn, error":                   {"debug", "info"},
	} {
		status, out := run(args...)
		assert.Equal(t, cli.ExitUsage, status, args)
		assert.Contains(t, out, want)
	}
}
