//! A time step of `tti` by plain loops in double precision.

use super::kernels::RADIUS;

/// Allowed error of a step in single precision, in roundings of all terms: chains of up to twice sixteen sums and as many products,
/// twelve operations of the equations, and the roundings of the weights.
const ROUNDINGS: f64 = 64.0 / 16_777_216.0;
/// vs² over vz² (ε − δ), inverted (Fletcher, Du and Fowler 2009).
const SIGMA: f64 = 0.75;

/// One cell's medium.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Medium {
    /// (vz · dt / h)².
    pub(crate) v: f32,
    /// Halves: ε and δ in 2⁻¹⁶.
    pub(crate) thomsen: u32,
    /// Halves: the axis' x and y in 2⁻¹⁵, signed.
    pub(crate) axis: u32,
}

impl Medium {
    fn anisotropy(self) -> [f64; 2] {
        [self.thomsen & 0xffff, self.thomsen >> 16].map(|half| f64::from(half) / 65_536.0)
    }

    fn axis(self) -> [f64; 3] {
        let [x, y] = [self.axis as u16, (self.axis >> 16) as u16].map(|half| f64::from(half as i16) / 32_768.0);
        [x, y, (1.0 - x * x - y * y).max(0.0).sqrt()]
    }
}

/// Weight k of the first and of the second derivative of 16th order (Fornberg 1988).
fn weights(k: u32) -> [f64; 2] {
    if k == 0 {
        return [0.0, -2.0 * (1..=RADIUS).map(|k| 1.0 / f64::from(k * k)).sum::<f64>()];
    }
    let factorial = |n: u32| (1..=n).map(f64::from).product::<f64>();
    let sign = if k % 2 == 1 { 1.0 } else { -1.0 };
    let share = sign * factorial(RADIUS).powi(2) / (factorial(RADIUS - k) * factorial(RADIUS + k));
    [share / f64::from(k), 2.0 * share / f64::from(k * k)]
}

/// The nonzero weights of a derivative, from −RADIUS to RADIUS.
fn line(order: usize) -> Vec<(i64, f64)> {
    let sign = |k: i64| if order == 0 && k < 0 { -1.0 } else { 1.0 };
    let reach = i64::from(RADIUS);
    (-reach..=reach)
        .map(|k| (k, sign(k) * weights(k.unsigned_abs() as u32)[order]))
        .filter(|(_, w)| *w != 0.0)
        .collect()
}

/// Two fields; everything outside is zero.
#[derive(Clone, Debug)]
pub(crate) struct Wave {
    pub(crate) cells: [u32; 3],
    /// The previous p and q.
    pub(crate) before: [Vec<f64>; 2],
    /// The current p and q.
    pub(crate) now: [Vec<f64>; 2],
}

/// Second derivatives, and the sizes of their terms.
type Exact = [[(f64, f64); 3]; 3];

impl Wave {
    fn value_at(&self, field: usize, [x, y, z]: [i64; 3]) -> f64 {
        let [nx, ny, nz] = self.cells.map(i64::from);
        let inside = (0..nx).contains(&x) && (0..ny).contains(&y) && (0..nz).contains(&z);
        if inside { self.now[field][((z * ny + y) * nx + x) as usize] } else { 0.0 }
    }

    fn exact(&self, field: usize, place: [i64; 3], lines: &[Vec<(i64, f64)>; 2]) -> Exact {
        std::array::from_fn(|a| {
            std::array::from_fn(|b| {
                let mut total = (0.0, 0.0);
                let mut add = |by: [(usize, i64); 2], weight: f64| {
                    let mut at = place;
                    by.iter().for_each(|(axis, steps)| at[*axis] += steps);
                    let term = weight * self.value_at(field, at);
                    total = (total.0 + term, total.1 + term.abs());
                };
                if a == b {
                    lines[1].iter().for_each(|(k, weight)| add([(a, *k), (b, 0)], *weight));
                } else {
                    for (k, one) in &lines[0] {
                        lines[0].iter().for_each(|(l, other)| add([(a, *k), (b, *l)], one * other));
                    }
                }
                total
            })
        })
    }

    /// p and q after a step, and each cell's allowed error in single precision.
    pub(crate) fn step(&self, medium: &[Medium]) -> ([Vec<f64>; 2], Vec<f64>) {
        let [nx, ny, nz] = self.cells.map(i64::from);
        let lines = [line(0), line(1)];
        let (mut new, mut off) = ([Vec::new(), Vec::new()], Vec::new());
        for place in (0..nz).flat_map(|z| (0..ny).flat_map(move |y| (0..nx).map(move |x| [x, y, z]))) {
            let i = off.len();
            let (n, [epsilon, delta], v) = (medium[i].axis(), medium[i].anisotropy(), f64::from(medium[i].v));
            let of = [0, 1].map(|field| self.exact(field, place, &lines));
            let pairs = || (0..3).flat_map(|a| (0..3).map(move |b| (a, b)));
            let along = of.map(|of| pairs().map(|(a, b)| n[a] * n[b] * of[a][b].0).sum::<f64>());
            let across = [0, 1].map(|field| (0..3).map(|a| of[field][a][a].0).sum::<f64>() - along[field]);
            let sizes = |of: &Exact| {
                pairs().map(|(a, b)| ((n[a] * n[b]).abs() + f64::from(u8::from(a == b))) * of[a][b].1).sum::<f64>()
            };
            let shear = (epsilon - delta) / SIGMA;
            let for_p = (1.0 + 2.0 * epsilon) * across[0] + along[1] + shear * (along[0] - along[1]);
            let for_q = (1.0 + 2.0 * delta) * across[0] + along[1] - shear * (across[0] - across[1]);
            let mut by = 4.0 * v * of.iter().map(sizes).sum::<f64>();
            for (field, force) in [for_p, for_q].into_iter().enumerate() {
                new[field].push(2.0 * self.now[field][i] - self.before[field][i] + v * force);
                by += 2.0 * self.now[field][i].abs() + self.before[field][i].abs();
            }
            off.push(ROUNDINGS * by + 1e-42);
        }
        (new, off)
    }

    /// The same for a vertical axis everywhere (VTI): only second derivatives, without H1, H2 or an axis.
    pub(crate) fn upright(&self, medium: &[Medium]) -> [Vec<f64>; 2] {
        let [nx, ny, nz] = self.cells.map(i64::from);
        let second = line(1);
        let mut new = [Vec::new(), Vec::new()];
        for place in (0..nz).flat_map(|z| (0..ny).flat_map(move |y| (0..nx).map(move |x| [x, y, z]))) {
            let i = new[0].len();
            let derivative = |field: usize, axis: usize| -> f64 {
                let shifted = |k: i64| std::array::from_fn(|a| place[a] + if a == axis { k } else { 0 });
                second.iter().map(|(k, weight)| weight * self.value_at(field, shifted(*k))).sum()
            };
            let [flat_p, flat_q] = [0, 1].map(|field| derivative(field, 0) + derivative(field, 1));
            let [up_p, up_q] = [0, 1].map(|field| derivative(field, 2));
            let ([epsilon, delta], v) = (medium[i].anisotropy(), f64::from(medium[i].v));
            let shear = v * (epsilon - delta) / SIGMA;
            let (fast, normal) = (v * (1.0 + 2.0 * epsilon), v * (1.0 + 2.0 * delta));
            let p = fast * flat_p + v * up_q + shear * (up_p - up_q);
            let q = normal * flat_p + v * up_q - shear * (flat_p - flat_q);
            for (field, force) in [p, q].into_iter().enumerate() {
                new[field].push(2.0 * self.now[field][i] - self.before[field][i] + force);
            }
        }
        new
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The force on the middle cell of a plane wave along a direction in a uniform medium.
    fn force(direction: [f64; 3], amplitudes: [f64; 2], medium: Medium) -> [f64; 2] {
        let cells = [17, 17, 17];
        let wave = |x: i64, y: i64, z: i64| {
            let along = direction[0] * (x - 8) as f64 + direction[1] * (y - 8) as f64 + direction[2] * (z - 8) as f64;
            (0.3 * along).cos()
        };
        let places = || (0..17).flat_map(|z| (0..17).flat_map(move |y| (0..17).map(move |x| (x, y, z))));
        let field = |amplitude: f64| places().map(|(x, y, z)| amplitude * wave(x, y, z)).collect::<Vec<f64>>();
        let now = amplitudes.map(field);
        // Only the middle cell is unaffected by the edges.
        let of_middle = |wave: &Wave| {
            let middle = 8 * 17 * 17 + 8 * 17 + 8;
            let of = [0, 1].map(|field| wave.exact(field, [8, 8, 8], &[line(0), line(1)]));
            (of, middle)
        };
        let wave = Wave { cells, before: now.clone(), now };
        let (of, middle) = of_middle(&wave);
        let (n, [epsilon, delta]) = (medium.axis(), medium.anisotropy());
        let along = of.map(|of| {
            (0..3).flat_map(|a| (0..3).map(move |b| (a, b))).map(|(a, b)| n[a] * n[b] * of[a][b].0).sum::<f64>()
        });
        let across = [0, 1].map(|f| (0..3).map(|a| of[f][a][a].0).sum::<f64>() - along[f]);
        let shear = (epsilon - delta) / SIGMA;
        let at = [0, 1].map(|field| wave.now[field][middle]);
        [
            ((1.0 + 2.0 * epsilon) * across[0] + along[1] + shear * (along[0] - along[1])) / at[0],
            ((1.0 + 2.0 * delta) * across[0] + along[1] - shear * (across[0] - across[1])) / at[1],
        ]
    }

    #[test]
    fn waves_across_the_axis_are_faster_than_along_it() {
        // The axis (0.6, 0, 0.8), ε = 0.25, δ = 0.125.
        let medium = Medium { v: 1.0, thomsen: 0x4000 | 0x2000 << 16, axis: (0.6 * 32_768.0) as u32 };
        let [x, _, z] = medium.axis();
        let along = force([x, 0.0, z], [1.0, 1.0], medium);
        assert!((along[0] / along[1] - 1.0).abs() < 1e-6 && (along[1] / -0.09 - 1.0).abs() < 1e-6, "{along:?}");
        let across = force([z, 0.0, -x], [1.0, 1.0], medium);
        assert!((across[0] / -0.09 - 1.5).abs() < 1e-6, "{across:?}");
    }

    #[test]
    fn upright_axis_reduces_to_the_simpler_equations() {
        let cells = [4, 3, 5];
        let mut rng = plimsoll_core::stats::Rng::new(5);
        let mut field = || (0..60).map(|_| rng.uniform() - 0.5).collect::<Vec<f64>>();
        let wave = Wave { cells, before: [field(), field()], now: [field(), field()] };
        let medium = vec![Medium { v: 0.04, thomsen: 0x3000 | 0x1000 << 16, axis: 0 }; 60];
        let (tilted, _) = wave.step(&medium);
        let upright = wave.upright(&medium);
        for (a, b) in tilted.concat().iter().zip(upright.concat()) {
            assert!((a - b).abs() < 1e-14, "{a} {b}");
        }
    }

    #[test]
    fn derivatives_are_exact_for_polynomials() {
        let derive =
            |order: usize, power: i32| line(order).iter().map(|(k, w)| w * (*k as f64).powi(power)).sum::<f64>();
        assert!((derive(0, 1) - 1.0).abs() < 1e-12 && derive(0, 3).abs() < 1e-10 && derive(0, 5).abs() < 1e-8);
        assert!((derive(1, 2) - 2.0).abs() < 1e-12 && derive(1, 0).abs() < 1e-12 && derive(1, 4).abs() < 1e-9);
    }
}
