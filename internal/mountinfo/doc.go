// Package mountinfo reads the kernel's list of mounts, /proc/self/mountinfo
// (proc(5)). The package must not depend on the purpose of the mounts.
package mountinfo
