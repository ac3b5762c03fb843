package main

import (
	"path/filepath"

	"golang.org/x/sys/unix"
)

// inKernel returns the rows that compare TLS in the kernel with that of the programs.
func inKernel() (list []*row) {
	for _, d := range []struct{ name, file, op string }{
		{"READ 1 MiB, depth 16", "big", "read"}, {"WRITE 1 MiB, depth 16, over an existing file", "over", "write"},
	} {
		list = append(list, &row{
			name: "TLS below MPA, in the kernel: " + d.name, against: "TLS in the programs", lacks: kernelLacks(),
			ours: inside(d.file, d.op, "auto"), limit: inside(d.file, d.op, "off"),
			views: []view{{"", "GB/s", rate, goal{}}, {"CPU, both ends", "s/GiB", perGiB, goal{}}},
		})
	}
	return list
}

// kernelLacks returns why the kernel cannot encrypt, or "". For root, Linux loads the module.
func kernelLacks() string {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err.Error()
	}
	defer unix.Close(fd)
	if err := unix.SetsockoptString(fd, unix.IPPROTO_TCP, unix.TCP_ULP, "tls"); err != nil && err != unix.ENOTCONN {
		return "kernel has no TLS"
	}
	return ""
}

// inside is bench at depth 16 inside of TLS, with a value of --tls-kernel for both ends.
func inside(file, op, kernel string) side {
	return func(w *world) (*result, error) {
		dir, err := w.certificate()
		if err != nil {
			return nil, err
		}
		own := append(tlsFlags(dir), "--rdma-tls=require", "--tls-kernel="+kernel)
		return benchOf(own, free, file, op, "1MiB", 16, "--xprtsec=tls", "--tls-ca="+filepath.Join(dir, certFile), "--tls-kernel="+kernel)(w)
	}
}
