package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/nfsrdma/nfsrdma/gss"
	"github.com/nfsrdma/nfsrdma/gss/krb5"
)

// secured returns the rows that compare the flavours of Kerberos with AUTH_SYS, at one
// server. With krb5i and krb5p the processor's time is compared, with the time that
// AUTH_SYS and the cipher alone need for the same bytes.
func secured() (list []*row) {
	bytesOf := []struct{ name, file, op string }{
		{"READ 1 MiB, depth 16", "big", "read"}, {"WRITE 1 MiB, depth 16, over an existing file", "over", "write"},
	}
	for _, d := range bytesOf {
		list = append(list, &row{
			name: "krb5: " + d.name, against: "sys",
			ours: with("krb5", d.file, d.op, "1MiB"), limit: with("sys", d.file, d.op, "1MiB"),
			views: []view{{"", "GB/s", rate, atLeast(0.95)}, {"CPU, both ends", "s/GiB", perGiB, goal{}}},
		})
		for _, c := range []struct{ flavor, cipher string }{{"krb5i", "signatures"}, {"krb5p", "encryption"}} {
			list = append(list, &row{
				name: c.flavor + ": " + d.name, against: "sys, and the " + c.cipher + " alone of these bytes",
				ours: with(c.flavor, d.file, d.op, "1MiB"), limit: both(with("sys", d.file, d.op, "1MiB"), local(sealerRole, c.flavor)),
				views: []view{{"CPU, both ends", "s/GiB", perGiB, atMost(1.25)}, {"", "GB/s", rate, goal{}}},
			})
		}
	}
	for _, f := range []struct {
		flavor string
		least  float64
	}{{"krb5", 0.85}, {"krb5i", 0.75}, {"krb5p", 0.55}} {
		list = append(list, &row{
			name: f.flavor + ": GETATTR, depth 16", against: "sys",
			ours: with(f.flavor, "big", "getattr", "1"), limit: with("sys", "big", "getattr", "1"),
			views: []view{{"", "k/s", calls, atLeast(f.least)}, {"CPU, both ends", "µs/call", perCall, goal{}}},
		})
	}
	return list
}

// with is bench with a flavour, at depth 16.
func with(flavor, file, op, size string) side {
	return func(w *world) (*result, error) {
		realm, err := w.realm()
		if err != nil {
			return nil, err
		}
		own := []string{"--sec=sys:krb5:krb5i:krb5p", "--keytab=" + filepath.Join(realm, "server.keytab"), "--idmap=" + filepath.Join(realm, "idmapd.conf")}
		return benchOf(own, free, file, op, size, 16, "--sec="+flavor, "--keytab="+filepath.Join(realm, "machine.keytab"))(w)
	}
}

// realm returns the directory of a realm of Kerberos, which it serves for all
// programs.
func (w *world) realm() (dir string, err error) {
	dir = filepath.Join(w.dir, "realm")
	_, err = w.server("realm", func() (*server, error) {
		if _, err := os.Stat("/usr/sbin/krb5kdc"); err != nil {
			return nil, errors.New("the rows of Kerberos need krb5-kdc and krb5-admin-server: make setup installs them, and BENCH chooses other rows")
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

// both is the result of a, with the processor's time that b needs for as many bytes.
func both(a, b side) side {
	return func(w *world) (*result, error) {
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

// sealer signs and verifies blocks, or encrypts and decrypts them, as the two ends of a
// context do. Its arguments are a file whose name is the flavour, and the time.
func sealer(args []string) error {
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
	before, after := ends[0].WrapRoom()
	token := make([]byte, before+block+after)
	message := [][]byte{token[before:][:block]}
	mic := make([]byte, 0, ends[0].MICSize())
	seal := func() error {
		if filepath.Base(args[0]) == "krb5p" {
			if err := ends[0].Wrap(token[:before], message, token[before+block:]); err != nil {
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
		if !k.tick(block) {
			return k.print()
		}
	}
}
