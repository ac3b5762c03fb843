package main

import (
	"path/filepath"
	"strconv"
)

// tlsRows returns the TLS rows: over TCP, and below MPA.
func tlsRows() (list []*row) {
	gbps := func(g goal) []comparedValue {
		return []comparedValue{{"", "GB/s", gigabytesPerSecond, g}, {"CPU, both ends", "s/GiB", cpuPerGiB, goal{}}}
	}
	for _, d := range []struct{ name, file, op string }{
		{"READ 1 MiB, depth 16", "big", "read"}, {"WRITE 1 MiB, depth 16, over an existing file", "over", "write"},
	} {
		onTCP, onRDMA := nfsOnTCP(unpinned, true, d.file, d.op, blockSize, 16), nfsOnRDMA(unpinned, true, d.file, d.op, blockSize, 16)
		clearTCP, clearRDMA := nfsOnTCP(unpinned, false, d.file, d.op, blockSize, 16), nfsOnRDMA(unpinned, false, d.file, d.op, blockSize, 16)
		list = append(
			list,
			&row{name: "TLS on TCP: " + d.name, against: plainTLSName, ours: onTCP, limit: plainTLSStream, views: gbps(atLeast(0.9))},
			&row{name: "TLS or clear on TCP: " + d.name, against: "clear", ours: onTCP, limit: clearTCP, views: gbps(goal{})},
			&row{
				name: "TLS on TCP, cost: " + d.name, against: "clear, and AES-128-GCM alone of these bytes",
				ours: onTCP, limit: addCPUOf(clearTCP, localRole(gcmRole, d.file)), views: gbps(goal{})[1:],
			},
			&row{name: "TLS below MPA: " + d.name, against: plainTLSName, ours: onRDMA, limit: plainTLSStream, views: gbps(atLeast(0.8))},
			&row{name: "TLS below MPA or clear: " + d.name, against: "clear", ours: onRDMA, limit: clearRDMA, views: gbps(goal{})},
			&row{name: "TLS below MPA or on TCP: " + d.name, against: "TLS on TCP", ours: onRDMA, limit: onTCP, views: gbps(atLeast(1))},
			&row{
				name: "TLS below MPA or krb5p: " + d.name, against: "krb5p",
				ours: onRDMA, limit: benchWithFlavor("krb5p", d.file, d.op, "1MiB"), views: gbps(atLeast(2)),
			},
		)
	}
	for _, g := range []struct {
		name  string
		at    cpuPlacement
		depth int
	}{{"GETATTR, depth 1, both ends on one CPU", sameCPU, 1}, {"GETATTR, depth 16", unpinned, 16}} {
		views := func(bound goal) []comparedValue {
			return []comparedValue{{"", "k/s", kiloCallsPerSecond, bound}, {"CPU, both ends", "µs/call", cpuPerCall, goal{}}}
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
		name: "AES-128-GCM alone, records of 16 KiB, sealed and opened", against: plainTLSName,
		ours: localRole(gcmRole, "big"), limit: plainTLSStream, views: gbps(goal{}),
	})
}

const plainTLSName = "crypto/tls alone, from the file's mapping"

// plainTLSStream measures a file's stream through crypto/tls.
func plainTLSStream(w *testbed) (*result, error) {
	dir, err := w.ensureCertificate()
	if err != nil {
		return nil, err
	}
	s, err := w.ensureServer(tlsServerRole, func() (*server, error) {
		return startServer(w.ctx, anyCPU, "tls", w.self, roleWord, tlsServerRole, w.path("big"), dir)
	})
	if err != nil {
		return nil, err
	}
	return w.runRole(s, anyCPU, tlsClientRole, s.addr, dir, w.opts.time.String())
}

// nfsOnTCP sends calls over TCP, with TLS or unencrypted, to one server.
func nfsOnTCP(at cpuPlacement, secure bool, file, op string, size, depth int) sideFunc {
	return func(w *testbed) (*result, error) {
		dir, err := w.ensureCertificate()
		if err != nil {
			return nil, err
		}
		s, err := w.ensureNfsrdmadAt("tcp", at.server, append(serverTLSFlags(dir), "--tcp", "127.0.0.1:0")...)
		if err != nil {
			return nil, err
		}
		return mountBenchAt(s, at.client, file, op, strconv.Itoa(size), depth, append(clientTLSFlags(dir, secure), "--proto=tcp")...)(w)
	}
}

// nfsOnRDMA sends calls over RDMA, with TLS below MPA or unencrypted, to one
// server.
func nfsOnRDMA(at cpuPlacement, secure bool, file, op string, size, depth int) sideFunc {
	return func(w *testbed) (*result, error) {
		dir, err := w.ensureCertificate()
		if err != nil {
			return nil, err
		}
		return mountBenchWith(append(serverTLSFlags(dir), "--rdma-tls=allow"), at, file, op, strconv.Itoa(size), depth, clientTLSFlags(dir, secure)...)(w)
	}
}

// clientTLSFlags returns the flags for a client that uses TLS, or none.
func clientTLSFlags(dir string, secure bool) []string {
	if !secure {
		return nil
	}
	return []string{"--xprtsec=tls", "--tls-ca=" + filepath.Join(dir, certFile)}
}

// serverTLSFlags returns the flags for a server with a certificate.
func serverTLSFlags(dir string) []string {
	return []string{"--tls-cert=" + filepath.Join(dir, certFile), "--tls-key=" + filepath.Join(dir, keyFile)}
}
