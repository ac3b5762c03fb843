package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/nfsrdma/nfsrdma/oncrpc/gss"
	"github.com/nfsrdma/nfsrdma/oncrpc/gss/krb5"
)

// kerberosRows returns the rows that compare the Kerberos flavors with AUTH_SYS, on
// one server. For krb5i and krb5p the CPU time is compared with the time that
// AUTH_SYS and the bare cipher need for the same bytes.
func kerberosRows() (list []*row) {
	bytesOf := []struct{ name, file, op string }{
		{"READ 1 MiB, depth 16", "big", "read"}, {"WRITE 1 MiB, depth 16, over an existing file", "over", "write"},
	}
	for _, d := range bytesOf {
		list = append(list, &row{
			name: "krb5: " + d.name, against: "sys",
			ours: benchWithFlavor("krb5", d.file, d.op, "1MiB"), limit: benchWithFlavor("sys", d.file, d.op, "1MiB"),
			views: []comparedValue{{"", "GB/s", gigabytesPerSecond, atLeast(0.95)}, {"CPU, both ends", "s/GiB", cpuPerGiB, goal{}}},
		})
		for _, c := range []struct{ flavor, cipher string }{{"krb5i", "signatures"}, {"krb5p", "encryption"}} {
			list = append(list, &row{
				name: c.flavor + ": " + d.name, against: "sys, and the " + c.cipher + " alone of these bytes",
				ours: benchWithFlavor(c.flavor, d.file, d.op, "1MiB"), limit: addCPUOf(benchWithFlavor("sys", d.file, d.op, "1MiB"), localRole(sealerRole, c.flavor)),
				views: []comparedValue{{"CPU, both ends", "s/GiB", cpuPerGiB, atMost(1.25)}, {"", "GB/s", gigabytesPerSecond, goal{}}},
			})
		}
	}
	for _, f := range []struct {
		flavor string
		least  float64
	}{{"krb5", 0.85}, {"krb5i", 0.75}, {"krb5p", 0.55}} {
		list = append(list, &row{
			name: f.flavor + ": GETATTR, depth 16", against: "sys",
			ours: benchWithFlavor(f.flavor, "big", "getattr", "1"), limit: benchWithFlavor("sys", "big", "getattr", "1"),
			views: []comparedValue{{"", "k/s", kiloCallsPerSecond, atLeast(f.least)}, {"CPU, both ends", "µs/call", cpuPerCall, goal{}}},
		})
	}
	return list
}

// benchWithFlavor is mountrdma bench with a security flavor, at depth 16.
func benchWithFlavor(flavor, file, op, size string) sideFunc {
	return func(w *testbed) (*result, error) {
		realm, err := w.startRealm()
		if err != nil {
			return nil, err
		}
		own := []string{"--sec=sys:krb5:krb5i:krb5p", "--keytab=" + filepath.Join(realm, "server.keytab"), "--idmap=" + filepath.Join(realm, "idmapd.conf")}
		return mountBenchWith(own, unpinned, file, op, size, 16, "--sec="+flavor, "--keytab="+filepath.Join(realm, "machine.keytab"))(w)
	}
}

// startRealm returns a Kerberos realm's directory, which it serves for all
// programs.
func (w *testbed) startRealm() (dir string, err error) {
	dir = filepath.Join(w.dir, "realm")
	_, err = w.ensureServer("realm", func() (*server, error) {
		if _, err := os.Stat("/usr/sbin/krb5kdc"); err != nil {
			return nil, errors.New("the Kerberos rows need krb5-kdc and krb5-admin-server: make setup installs them, and BENCH chooses other rows")
		}
		if err := os.Mkdir(dir, 0o700); err != nil {
			return nil, err
		}
		program := filepath.Join(w.dir, "serve-realm")
		if out, err := exec.CommandContext(w.ctx, "go", "build", "-o", program, "./interop/kerberos/realm").CombinedOutput(); err != nil {
			return nil, fmt.Errorf("the realm's program: %w: %s", err, out)
		}
		if err := os.Setenv("KRB5_CONFIG", filepath.Join(dir, "krb5.conf")); err != nil {
			return nil, err
		}
		return startServer(w.ctx, anyCPU, "tcp", program, dir)
	})
	return dir, err
}

// addCPUOf returns a's result, plus the CPU time that b needs for as many bytes.
func addCPUOf(a, b sideFunc) sideFunc {
	return func(w *testbed) (*result, error) {
		r, err := a(w)
		if err != nil {
			return nil, err
		}
		more, err := b(w)
		if err != nil {
			return nil, err
		}
		r.Client += more.Client * r.Bytes / more.Bytes
		return r, nil
	}
}

const sealerRole = "sealer"

// runSealer signs and verifies blocks, or encrypts and decrypts them, like the two
// ends of a context. Its arguments are a file whose name is the flavor, and the
// time.
func runSealer(args []string) error {
	var ends [2]gss.Context
	for i := range ends {
		c, err := krb5.NewContext(krb5.Establishment{
			Key:            krb5.Key{Enctype: krb5.AES256SHA1, Value: bytes.Repeat([]byte{7}, 32)},
			AcceptorSubkey: true, Acceptor: i == 1, Expires: time.Now().Add(time.Hour),
		})
		if err != nil {
			return err
		}
		ends[i] = c
	}
	before, after := ends[0].WrapOverhead()
	token := make([]byte, before+blockSize+after)
	message := [][]byte{token[before:][:blockSize]}
	mic := make([]byte, 0, ends[0].MICSize())
	seal := func() error {
		if filepath.Base(args[0]) == "krb5p" {
			if err := ends[0].Wrap(token[:before], message, token[before+blockSize:]); err != nil {
				return err
			}
			_, err := ends[1].Unwrap([][]byte{token})
			return err
		}
		signed, err := ends[0].AppendMIC(mic, message)
		if err != nil {
			return err
		}
		return ends[1].VerifyMIC(signed, message)
	}
	k, err := startClock(args[1])
	if err != nil {
		return err
	}
	for {
		if err := seal(); err != nil {
			return err
		}
		if !k.recordOp(blockSize) {
			return k.printResult()
		}
	}
}
