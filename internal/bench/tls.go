package main

import (
	"path/filepath"
	"strconv"
)

// encrypted returns the rows of TLS: on TCP, and below MPA.
func encrypted() (list []*row) {
	gbps := func(g goal) []view {
		return []view{{"", "GB/s", rate, g}, {"CPU, both ends", "s/GiB", perGiB, goal{}}}
	}
	for _, d := range []struct{ name, file, op string }{
		{"READ 1 MiB, depth 16", "big", "read"}, {"WRITE 1 MiB, depth 16, over an existing file", "over", "write"},
	} {
		onTCP, onRDMA := nfsOnTCP(free, true, d.file, d.op, block, 16), nfsOnRDMA(free, true, d.file, d.op, block, 16)
		clearTCP, clearRDMA := nfsOnTCP(free, false, d.file, d.op, block, 16), nfsOnRDMA(free, false, d.file, d.op, block, 16)
		list = append(
			list,
			&row{name: "TLS on TCP: " + d.name, against: bareName, ours: onTCP, limit: bareStream, views: gbps(atLeast(0.9))},
			&row{name: "TLS or clear on TCP: " + d.name, against: "clear", ours: onTCP, limit: clearTCP, views: gbps(goal{})},
			&row{
				name: "TLS on TCP, cost: " + d.name, against: "clear, and AES-128-GCM alone of these bytes",
				ours: onTCP, limit: both(clearTCP, local(gcmRole, d.file)), views: gbps(goal{})[1:],
			},
			&row{name: "TLS below MPA: " + d.name, against: bareName, ours: onRDMA, limit: bareStream, views: gbps(atLeast(0.8))},
			&row{name: "TLS below MPA or clear: " + d.name, against: "clear", ours: onRDMA, limit: clearRDMA, views: gbps(goal{})},
			&row{name: "TLS below MPA or on TCP: " + d.name, against: "TLS on TCP", ours: onRDMA, limit: onTCP, views: gbps(atLeast(1))},
			&row{
				name: "TLS below MPA or krb5p: " + d.name, against: "krb5p",
				ours: onRDMA, limit: with("krb5p", d.file, d.op, "1MiB"), views: gbps(atLeast(2)),
			},
		)
	}
	for _, g := range []struct {
		name  string
		at    place
		depth int
	}{{"GETATTR, depth 1, both ends on one CPU", together, 1}, {"GETATTR, depth 16", free, 16}} {
		views := func(bound goal) []view {
			return []view{{"", "k/s", calls, bound}, {"CPU, both ends", "µs/call", perCall, goal{}}}
		}
		list = append(
			list,
			&row{
				name: "TLS or clear on TCP: " + g.name, against: "clear", views: views(atLeast(0.8)),
				ours: nfsOnTCP(g.at, true, "big", "getattr", 1, g.depth), limit: nfsOnTCP(g.at, false, "big", "getattr", 1, g.depth),
			},
			&row{
				name: "TLS below MPA or clear: " + g.name, against: "clear", views: views(goal{}),
				ours: nfsOnRDMA(g.at, true, "big", "getattr", 1, g.depth), limit: nfsOnRDMA(g.at, false, "big", "getattr", 1, g.depth),
			},
		)
	}
	return append(list, &row{
		name: "AES-128-GCM alone, records of 16 KiB, sealed and opened", against: bareName,
		ours: local(gcmRole, "big"), limit: bareStream, views: gbps(goal{}),
	})
}

const bareName = "crypto/tls alone, from the file's mapping"

// bareStream is a stream of a file through crypto/tls.
func bareStream(w *world) (*result, error) {
	dir, err := w.certificate()
	if err != nil {
		return nil, err
	}
	s, err := w.server(tlsServerRole, func() (*server, error) {
		return startServer(w.ctx, anyCPU, "tls", w.self, roleWord, tlsServerRole, w.path("big"), dir)
	})
	if err != nil {
		return nil, err
	}
	return w.role(s, anyCPU, tlsClientRole, s.addr, dir, w.o.time.String())
}

// nfsOnTCP makes calls over TCP, inside of TLS or in clear, at one server.
func nfsOnTCP(at place, secure bool, file, op string, size, depth int) side {
	return func(w *world) (*result, error) {
		dir, err := w.certificate()
		if err != nil {
			return nil, err
		}
		s, err := w.nfsrdmadAt("tcp", at.server, append(tlsFlags(dir), "--tcp", "127.0.0.1:0")...)
		if err != nil {
			return nil, err
		}
		return benchAt(s, at.client, file, op, strconv.Itoa(size), depth, append(trust(dir, secure), "--proto=tcp")...)(w)
	}
}

// nfsOnRDMA makes calls over RDMA, with TLS below MPA or in clear, at one server.
func nfsOnRDMA(at place, secure bool, file, op string, size, depth int) side {
	return func(w *world) (*result, error) {
		dir, err := w.certificate()
		if err != nil {
			return nil, err
		}
		return benchOf(append(tlsFlags(dir), "--rdma-tls=allow"), at, file, op, strconv.Itoa(size), depth, trust(dir, secure)...)(w)
	}
}

// trust returns the flags of a client inside of TLS, or none.
func trust(dir string, secure bool) []string {
	if !secure {
		return nil
	}
	return []string{"--xprtsec=tls", "--tls-ca=" + filepath.Join(dir, certFile)}
}

// tlsFlags returns the flags of a server with a certificate.
func tlsFlags(dir string) []string {
	return []string{"--tls-cert=" + filepath.Join(dir, certFile), "--tls-key=" + filepath.Join(dir, keyFile)}
}
