package packet

import "hash/crc32"

// The register of a reflected CRC holds a polynomial over GF(2), x^0 in its top
// bit. A byte of zeros multiplies it by x^8, modulo the generator.

// one is the polynomial 1.
const one = 1 << 31

// back holds x^-8, x^-16, x^-32 and so on: enough for any datagram.
var back = func() (t [17]uint32) {
	t[0] = one
	for range 8 {
		t[0] = divide(t[0])
	}
	for i := 1; i < len(t); i++ {
		t[i] = multiply(t[i-1], t[i-1])
	}
	return t
}()

// divide divides p by x.
func divide(p uint32) uint32 {
	if p&one != 0 { // the generator was added
		return (p^crc32.IEEE)<<1 | 1
	}
	return p << 1
}

// multiply returns p times q.
func multiply(p, q uint32) (product uint32) {
	for ; p != 0; p <<= 1 {
		if p&one != 0 {
			product ^= q
		}
		if q&1 != 0 {
			q = q>>1 ^ crc32.IEEE
		} else {
			q >>= 1
		}
	}
	return product
}

// unshift returns the register's value before n bytes of zeros.
func unshift(register uint32, n int) uint32 {
	for i := 0; n > 0; i, n = i+1, n>>1 {
		if n&1 != 0 {
			register = multiply(register, back[i])
		}
	}
	return register
}
