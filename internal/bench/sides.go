package main

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
)

// A place is the CPUs of server and client.
type place struct{ server, client int }

var (
	free     = place{anyCPU, anyCPU}
	together = place{0, 0}
	across   = place{0, 1}
)

// tcp is raw TCP: what a tcpClient can do.
func tcp(at place, what string) side {
	return func(w *world) (*result, error) {
		s, err := w.tcpServer(at.server)
		if err != nil {
			return nil, err
		}
		return w.role(s, at.client, "tcpclient", s.addr, what, w.o.time.String())
	}
}

// bench is mountrdma bench, with flags of it. What is for the server too goes to
// both ends.
func bench(at place, file, op, size string, depth int, flags ...string) side {
	return func(w *world) (*result, error) {
		var both []string
		for _, f := range flags {
			if strings.HasPrefix(f, "--crc=") {
				both = append(both, f)
			}
		}
		s, err := w.nfsrdmad(at.server, both...)
		if err != nil {
			return nil, err
		}
		args := []string{"bench", url(s, file), "--json", "--op", op, "--block", size, "--depth", strconv.Itoa(depth), "--time", w.o.time.String()}
		return client(w.ctx, s, at.client, w.program("mountrdma"), append(args, flags...)...)
	}
}

// local is a role with something exported, used where it is.
func local(role, name string) side {
	return func(w *world) (*result, error) {
		return w.role(nil, anyCPU, role, w.path(name), w.o.time.String())
	}
}

// ofMount is a role with a file of our mount.
func ofMount(role, file, how string) side { return ofPoint((*world).mount, role, file, how) }

// ofMemFS is a role with a file of memfs.
func ofMemFS(role, file, how string) side { return ofPoint((*world).memFS, role, file, how) }

// ofTCPFS is a role with a file of tcpfs.
func ofTCPFS(role, file, how string) side { return ofPoint((*world).tcpFS, role, file, how) }

func ofPoint(mount func(*world) (string, error), role, file, how string) side {
	return func(w *world) (*result, error) {
		point, err := mount(w)
		if err != nil {
			return nil, err
		}
		return w.role(nil, anyCPU, role, filepath.Join(point, file), how, w.o.time.String())
	}
}

// idle is what n connections cost the server on which nothing happens, beside one
// on which something does.
func idle(n int) side {
	return func(w *world) (*result, error) {
		s, err := w.nfsrdmad(anyCPU, "--log-level=warn") // one that did nothing else
		if err != nil {
			return nil, err
		}
		run := func(n int) (*result, error) {
			var m meter
			defer m.watch(s, w.o.time)()
			res, err := client(w.ctx, s, anyCPU, w.program("mountrdma"), "bench", url(s, ""), "--json", "--op=null", "--depth=1", fmt.Sprint("--idle=", n), "--time", w.o.time.String())
			if err == nil {
				res.Memory = m.last()
			}
			return res, err
		}
		alone, err := run(0)
		if err != nil {
			return nil, err
		}
		many, err := run(n)
		if err == nil {
			many.Memory = (many.Memory - alone.Memory) / float64(n)
		}
		return many, err
	}
}
