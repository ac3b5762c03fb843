package main

import (
	"encoding/json"
	"net"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/internal/cli"
)

// TestServerList checks the commands with a list of which one server serves: the others
// refuse the connection, or accept it and stay silent.
func TestServerList(t *testing.T) {
	r := newTestServer(t)
	backlog, err := net.Listen("tcp", "127.0.0.1:0") // nobody accepts
	require.NoError(t, err)
	defer backlog.Close()
	writeFile(t, []byte("content"), r.dir, "file,a")
	for _, list := range []string{
		closedAddr(t) + "," + r.addr, r.addr + "," + closedAddr(t), backlog.Addr().String() + "," + closedAddr(t) + "," + r.addr,
	} {
		assert.Equal(t, "content", mustRun(t, "cat", scheme+list+"/x/file,a"))
		assert.Equal(t, "file,a\n", mustRun(t, "ls", list+":/x"))
		assert.Contains(t, mustRun(t, "df", list+":/x"), list)
		assert.Contains(t, mustRun(t, "ping", "-c1", list), "1 round trips to "+r.addr+":")
		assert.Regexp(t, `(?m)^servers +`+list+"\nserving now +"+r.addr+" ", mustRun(t, "info", list))
		var info serverInfo
		require.NoError(t, json.Unmarshal([]byte(mustRun(t, "info", "--json", list)), &info))
		assert.Equal(t, []string{list, r.addr, r.addr}, []string{info.Server, info.Serving, info.Address})
		assert.Equal(t, scheme+r.addr+"/x", info.Exports[0].URL)
	}
}

// TestServerListErrors checks that an error names each server with its own reason.
func TestServerListErrors(t *testing.T) {
	checkLeaks(t)
	a, b := closedAddr(t), closedAddr(t)
	said := mustFail(t, "ls", a+","+b+":/x")
	assert.Equal(t, "mountrdma: none of the servers serves: "+a+": "+refusedText+"; and "+b+": "+refusedText+"\n", said)

	silent, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer silent.Close()
	said = mustFail(t, "--timeout=200ms", "ls", silent.Addr().String()+","+b+":/x")
	assert.Contains(t, said, silent.Addr().String()+": MPA start-up: the program at that port accepted the connection but does not respond")
	assert.Contains(t, said, b+": "+refusedText)
}

// TestServerListUsage checks what takes no list, and the remedies.
func TestServerListUsage(t *testing.T) {
	for args, want := range map[string]string{
		"bridge a,b":                           "bridge takes one server, and a:20049,b:20049 are 2: run one bridge for each server",
		"doctor a,b:/x":                        "doctor takes one server, and a:20049,b:20049 are 2: run it for each server",
		"ls a,b:0:/x":                          `"a,b:0:/x": server "b:0" of the list: "0" is not a port: write a number from 1 to 65535`,
		"a,a:/x /mnt":                          `"a,a:/x": the list has the server a:20049 twice ("a" and "a"): remove one`,
		"a:1,a:2:/x /mnt -o port=5":            `the list has the server a:5 twice ("a:5" and "a:5"): remove one`,
		"a,b:/x /mnt -o mounthost=c":           "mounthost names one host, and the servers are several: omit mounthost, or name one server",
		strings.Repeat("a,", 16) + "a:/x /mnt": `"` + strings.Repeat("a,", 16) + `a:/x": the list has 17 servers, and at most 16 are possible: remove some`,
	} {
		status, _, stderr := runCommand(t, strings.Fields(args)...)
		assert.Equal(t, cli.ExitUsage, status, args)
		assert.Contains(t, stderr, "mountrdma: "+want+"\n")
	}
}
