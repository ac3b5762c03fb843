package packet

import "hash/crc32"

// A reflected CRC's register holds a polynomial over GF(2), x^0 in its top bit.
// A zero byte multiplies it by x^8, modulo the generator.

// polynomialOne is the polynomial 1.
const polynomialOne = 1 << 31

// backShifts holds x^-8, x^-16, x^-32 and so on: enough for any datagram.
var backShifts = func() (t [17]uint32) {
	t[0] = polynomialOne
	for range 8 {
		t[0] = divideByX(t[0])
	}
	for i := 1; i < len(t); i++ {
		t[i] = multiplyPolynomials(t[i-1], t[i-1])
	}
	return t
}()

// divideByX divides p by x.
func divideByX(p uint32) uint32 {
	if p&polynomialOne != 0 { // the generator was added
		return (p^crc32.IEEE)<<1 | 1
	}
	return p << 1
}

// multiplyPolynomials returns p times q.
func multiplyPolynomials(p, q uint32) (product uint32) {
	for ; p != 0; p <<= 1 {
		if p&polynomialOne != 0 {
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

// unshiftZeros returns the register's value before n zero bytes.
func unshiftZeros(register uint32, n int) uint32 {
	for i := 0; n > 0; i, n = i+1, n>>1 {
		if n&1 != 0 {
			register = multiplyPolynomials(register, backShifts[i])
		}
	}
	return register
}
