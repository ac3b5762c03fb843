package main

import (
	"path/filepath"

	"golang.org/x/sys/unix"
)

// kernelTLSRows returns the rows that compare TLS in the kernel with TLS in the
// programs.
func kernelTLSRows() (list []*row) {
	for _, d := range []struct{ name, file, op string }{
		{"READ 1 MiB, depth 16", "big", "read"}, {"WRITE 1 MiB, depth 16, over an existing file", "over", "write"},
	} {
		list = append(list, &row{
			name: "TLS below MPA, in the kernel: " + d.name, against: "TLS in the programs", missing: missingKernelTLS(),
			ours: benchKernelTLS(d.file, d.op, "auto"), limit: benchKernelTLS(d.file, d.op, "off"),
			views: []comparedValue{{"", "GB/s", gigabytesPerSecond, goal{}}, {"CPU, both ends", "s/GiB", cpuPerGiB, goal{}}},
		})
	}
	return list
}

// missingKernelTLS returns why the kernel cannot encrypt, or "". For root, Linux
// loads the module.
func missingKernelTLS() string {
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

// benchKernelTLS is mountrdma bench over TLS, at depth 16, with a value of
// --tls-kernel for both ends.
func benchKernelTLS(file, op, kernel string) sideFunc {
	return func(w *testbed) (*result, error) {
		dir, err := w.ensureCertificate()
		if err != nil {
			return nil, err
		}
		own := append(serverTLSFlags(dir), "--rdma-tls=require", "--tls-kernel="+kernel)
		return mountBenchWith(own, unpinned, file, op, "1MiB", 16, "--xprtsec=tls", "--tls-ca="+filepath.Join(dir, certFile), "--tls-kernel="+kernel)(w)
	}
}
